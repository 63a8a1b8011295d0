"""What a session says of what the process that times networks tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.bricks.measure import session as module
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import run_session, why_not


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


def test_rounds_that_the_hypervisor_disturbed_are_told_with_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session that had too few others, in its words; of one that had enough, beside what it took of these."""
    stolen = [a_round(good=False, steal_ratio=0.05), a_round(good=False, steal_ratio=0.234)]
    good = [a_round(steal_ratio=ratio) for ratio in (0.0, 0.04, None)]
    busy = told(monkeypatch, tmp_path, rounds=[*good[:2], *stolen], given_up=[a_round(steal_ratio=0.1)])
    assert why_not(busy, Method()) == (
        "the machine was not quiet: 2 of 5 rounds were at its level and had their cores to themselves (the hypervisor "
        "took 23% of their time in the worst of 3, less than 5% may be), 3 are needed; these times are not kept"
    )
    quiet = told(monkeypatch, tmp_path, rounds=[*good, *stolen])
    assert why_not(quiet, Method()) is None
    assert quiet.steal_ratios == (0.0, 0.04, None) and quiet.stolen_ratios == (0.05, 0.234)
