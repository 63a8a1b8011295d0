"""What the executor's loop does again and again."""

from __future__ import annotations

import pytest

from inferbench_tasks.provider.executors.turns import Turns


def test_each_thing_has_its_turn_in_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, then after so many seconds, and later where it was put off."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    turns = Turns({"look": 0.5, "clean": 600.0})
    assert turns.due("look") and turns.due("clean") and not turns.due("look")
    now[0] += 0.5
    assert turns.due("look") and not turns.due("clean")
    turns.put_off("look", 4.0)
    now[0] += 4.4
    assert not turns.due("look")
    now[0] += 0.1
    assert turns.due("look")
