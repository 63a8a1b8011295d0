"""What a session says of what the process that times networks tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.bricks.measure import session as module
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import run_session


def a_round(level: float = 100.0, **changes: Any) -> dict[str, Any]:
    """Of one network that took 1 s of the device."""
    return {
        "references_ns": {"dense": level}, "wait_ratio": 0.0, "good": True, "taken_ns": {"n": 1_000_000_000},
        "times": {"n": {"warm": [1000] * 5}}, "took_ns": 2_000_000_000, "earlier_ns": 0,
    } | changes  # fmt: skip


def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **last: Any) -> module.Session:
    """The session of what the process tells at its end."""
    monkeypatch.setattr(module, "_run", lambda *_: {"loading_ns": {"n": 500_000_000}, "given_up": []} | last)
    return run_session([], tmp_path, Method(), threads=1)


def test_rounds_that_were_given_up_took_their_time_of_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second of loading, three rounds of a second, one that does not count and two that were given up, of which
    one had timed the network, for 4 s and half of that in an attempt that was ended."""
    given_up = [a_round(taken_ns={"n": 4_000_000_000}, earlier_ns=2_000_000_000), a_round(taken_ns={})]
    rounds = [*[a_round()] * 3, a_round(good=False)]
    session = told(monkeypatch, tmp_path, rounds=rounds, given_up=given_up)
    assert session.taken_s == {"n": 0.5 + 4 + 4} and session.earlier_s == 2
    assert session.quiet and (session.good_rounds, session.rounds) == (3, 6)
