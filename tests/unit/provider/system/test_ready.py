"""Waiting for a system: as long as something comes, and no longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery

from inferbench_tasks.errors import ServerError
from inferbench_tasks.provider.system import ready
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


def test_a_system_without_its_host_s_worker_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that answers by HTTP is healthy and the device is there: it waits for the worker that reads submissions, by
    its name, and asks it no more once it has answered. A broker that is away is no error: it may still come.
    """
    answers = [False, True]
    there = SimpleNamespace(present=lambda ttl_s: True)
    of = "inferbench_tasks.provider.system.ready"
    monkeypatch.setattr(f"{of}.health", lambda url, client: dict.fromkeys(ready.PARTS, "healthy"))
    monkeypatch.setattr(f"{of}.execution_health", lambda url, client: "healthy")
    monkeypatch.setattr(f"{of}.Cluster", lambda db: SimpleNamespace(devices=lambda: [there]))
    monkeypatch.setattr(f"{of}.PerfDB.connect", lambda *given: nullcontext())
    monkeypatch.setattr(f"{of}.time.sleep", lambda seconds: None)
    with Celery(broker="redis://127.0.0.1:1/0") as nowhere:
        assert not ready.consumes(nowhere)
    monkeypatch.setattr(f"{of}.consumes", lambda broker: answers.pop(0))
    asked = ready.missing_of("", "", "memory://", Path("/data"), [], workers=1)
    assert next(asked) == ["worker-host (takes no task yet)"]
    assert next(asked) == [] and next(asked) == []


def test_one_that_goes_away_again_is_no_progress() -> None:
    """A part that comes and goes does not keep the wait alive."""
    machine = Machine(100.0, *[["a", "b"], ["b"]] * 9)
    with pytest.raises(ServerError, match="nothing more of it became so for 240 s"):
        machine.wait()
