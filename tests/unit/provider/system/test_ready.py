"""Waiting for a system: as long as something comes, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from inferbench_tasks.errors import ServerError
from inferbench_tasks.provider.system.ready import STUCK_AFTER_S, wait_until_healthy


class Machine:
    """What is missing at each question, and a clock that goes on by so many seconds with each."""

    def __init__(self, step_s: float, *missing: Sequence[str]) -> None:
        self.now_s, self.step_s, self.missing = 0.0, step_s, missing
        self.said: list[str] = []

    def asked(self) -> Iterator[Sequence[str]]:
        for names in self.missing:
            yield names
            self.now_s += self.step_s

    def wait(self) -> None:
        wait_until_healthy(self.asked(), Path("/logs"), self.said.append, clock=lambda: self.now_s)


def test_a_slow_machine_may_take_long_as_long_as_its_parts_come() -> None:
    """Three parts, each 200 s after the other: 800 s are more than the limit, and no error; each wait is told."""
    machine = Machine(200.0, ["a", "b", "c"], ["b", "c"], ["c"], [])
    machine.wait()
    assert machine.now_s == 600.0
    assert machine.said == ["still waiting for b, c", "still waiting for c"]


def test_what_does_not_move_is_an_error_that_names_what_is_missing() -> None:
    """One part of two never comes: after the limit the error has it and the logs' place."""
    machine = Machine(100.0, ["a", "b"], *[["b"]] * 6)
    with pytest.raises(ServerError, match=r"Missing: b; logs: /logs"):
        machine.wait()
    assert machine.now_s == 100.0 + STUCK_AFTER_S // 100 * 100 + 100.0


def test_one_that_goes_away_again_is_no_progress() -> None:
    """A part that comes and goes does not keep the wait alive."""
    machine = Machine(100.0, *[["a", "b"], ["b"]] * 9)
    with pytest.raises(ServerError, match="nothing more of it became so for 240 s"):
        machine.wait()
