"""The two clocks beside each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inferbench_tasks.timing import wall_clock
from inferbench_tasks.timing.wall_clock import WallClock

OFFSET = 1_700_000_000_000_000_000


class Time:
    """Both clocks: each reading takes as long as it is told, 100 ns else."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000
        self.offset_ns = OFFSET
        self.takes: Iterator[int] = iter(())

    def monotonic_ns(self) -> int:
        """As the module has it."""
        self.now_ns += next(self.takes, 100)
        return self.now_ns

    def time_ns(self) -> int:
        """As the module has it."""
        return self.monotonic_ns() + self.offset_ns


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Time:
    """In place of the system's."""
    made = Time()
    monkeypatch.setattr(wall_clock, "time", made)
    return made


def test_the_offset_is_known_to_what_a_reading_takes(clocks: Time) -> None:
    """At worst the two readings around the system's time."""
    assert abs(WallClock().offset_ns - OFFSET) <= 100


def test_a_reading_that_was_interrupted_makes_nothing_worse(clocks: Time) -> None:
    """Five ms between two readings, on either side, are no step; a better one corrects a first bad one."""
    clocks.takes = iter([100, 5_000_000, 100])
    clock = WallClock()
    assert abs(clock.offset_ns - OFFSET) > 1_000_000
    clock.sample()
    assert abs(clock.offset_ns - OFFSET) <= 100
    for takes in ([100, 100, 5_000_000], [100, 5_000_000, 100]):
        clocks.takes = iter(takes)
        clock.sample()
    assert abs(clock.offset_ns - OFFSET) <= 100
    assert (clock.steps, clock.max_step_ns) == (0, 0)


@pytest.mark.parametrize("size_ns", [50_000, -50_000, 3_600_000_000_000, -3_600_000_000_000])
def test_a_step_is_seen_and_followed(clocks: Time, size_ns: int) -> None:
    """Its size to what readings take; what is converted after the next sample is right again."""
    clock = WallClock()
    clocks.offset_ns += size_ns
    clock.sample()
    assert clock.steps == 1 and abs(clock.max_step_ns - abs(size_ns)) <= 400
    assert abs(clock.offset_ns - OFFSET - size_ns) <= 100
    clock.sample()
    assert clock.steps == 1


def test_a_step_back_and_forth_leaves_the_larger_one(clocks: Time) -> None:
    """Each is counted."""
    clock = WallClock()
    for size_ns in (2_000_000, -7_000_000):
        clocks.offset_ns += size_ns
        clock.sample()
    assert clock.steps == 2 and abs(clock.max_step_ns - 7_000_000) <= 400


def test_the_systems_own_clocks_do_not_step() -> None:
    """Ten thousand samples of the real ones know the offset to a few us, and each stays within the first's bounds."""
    clock = WallClock()
    for _ in range(10_000):
        clock.sample()
    assert clock.steps == 0
