"""How often a network is run in a round, and what is read before a streamed run; the clock is made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.bricks.measure import bound
from inferbench_tasks.bricks.measure.bound import _Enough, _numbers, warmed_up
from inferbench_tasks.bricks.measure.precise import half_width_ratio


class Clock:
    """Nanoseconds that go on by the milliseconds of each run."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def run(self, ms: float) -> Callable[[], None]:
        def run() -> None:
            self.now_ns += int(ms * 1e6)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(bound, "time", made)
    return made


@pytest.mark.parametrize(("ms", "runs"), [(0.01, 3), (24, 3), (30, 2), (51, 1), (5_000, 1)])
def test_a_long_run_warms_up_once(clock: Clock, ms: float, runs: int) -> None:
    """Three times, or until 50 ms are over: of 30 ms after two."""
    assert warmed_up(clock.run(ms)) == runs and clock.now_ns == int(ms * 1e6) * runs


def timed(enough: _Enough, clock: Clock, times: list[int], each_ms: float = 1) -> int:
    """How many of these runs are made."""
    done: list[int] = []
    while not enough(done):
        clock.run(each_ms)()
        done.append(times[len(done)])
    return len(done)


def test_all_runs_are_made_unless_time_is_over(clock: Clock) -> None:
    """34, of 100 ms each 20 in two seconds, of one second each five; fewer than five where fewer are wanted."""
    assert timed(_Enough(34, 2, 0), clock, [100] * 34) == 34
    assert timed(_Enough(34, 2, 0), clock, [100] * 34, 100) == 20
    assert timed(_Enough(34, 2, 0), clock, [100] * 34, 1_000) == 5
    assert timed(_Enough(3, 2, 0), clock, [100] * 3) == 3


def test_runs_end_once_their_mean_is_known(clock: Clock) -> None:
    """Runs that are alike after five; those that scatter by 2% after 20, by which 1.1% is known, and not by 5 or 10;
    such as never agree after all. 29% is what five times from 10 to 14 say."""
    assert timed(_Enough(34, 2, 0.01), clock, [100] * 34) == 5
    scattered = np.random.default_rng(2).normal(100_000, 2_000, 34).astype(int).tolist()
    assert half_width_ratio(scattered[:10]) > 0.011 > half_width_ratio(scattered[:20])
    assert timed(_Enough(34, 2, 0.011), clock, scattered) == 20
    assert timed(_Enough(34, 2, 0.01), clock, [100, 200] * 17) == 34
    assert timed(_Enough(34, 2, 0.29), clock, [*range(10, 15), *[12] * 29]) > 5
    assert timed(_Enough(34, 2, 0.295), clock, [*range(10, 15), *[12] * 29]) == 5


def test_how_well_a_trimmed_mean_is_known() -> None:
    """10 to 14: winsorised 11, 11, 12, 13, 13, of variance 1; root(4 x 1 / (3 x 2)) = 0.816 times 4.303 (two degrees of
    freedom) over 12 is 0.293. Of one value nothing is known."""
    assert half_width_ratio([14, 10, 12, 11, 13]) == pytest.approx(4.302652729911275 * (2 / 3) ** 0.5 / 12)
    assert half_width_ratio([14, 10, 12, 11, 1e9]) < 0.5  # an outlier counts as its neighbour
    with pytest.raises(ValueError, match="nothing tells"):
        half_width_ratio([1.0])


def test_the_interval_of_a_trimmed_mean_holds_as_often_as_it_says() -> None:
    """Of 2,000 times 20 runs that scatter by 3% 95% (a standard error of 0.5%)."""
    draws = np.random.default_rng(5).normal(100, 3, (2_000, 20))
    held = 0
    for row in draws.tolist():
        mean = float(np.mean(sorted(row)[4:16]))
        held += abs(mean / 100 - 1) <= half_width_ratio(row) * mean / 100
    assert 0.93 <= held / 2_000 <= 0.97


@pytest.mark.parametrize(
    "array",
    [
        np.arange(1, 8, dtype=np.float32),
        np.arange(1, 9, dtype=np.float64).reshape(2, 4)[:, ::2],
        np.array([True] * 9),
        np.array(3.0, np.float32),
        np.zeros((0, 4), np.float32),
        np.arange(6, dtype=np.float16),
    ],
)
def test_what_is_read_before_a_streamed_run_is_all_of_the_memory(array: NDArray[Any]) -> None:
    """In words, but for less than one at the end; a scalar's bytes, and nothing of an empty one."""
    read, memory = _numbers(array), array.tobytes()
    assert len(memory) - read.nbytes < 8 and read.tobytes() == memory[: read.nbytes]
    assert read.dtype == (np.uint64 if len(memory) >= 8 else np.uint8)
