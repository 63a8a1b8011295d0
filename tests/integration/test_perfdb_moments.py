"""Whose clock the moments in PerfDB are of."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb import moments
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import result

#: What the server's clock says, second by second, while this host's says another year.
SERVER = datetime(2023, 6, 1, tzinfo=UTC)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The answers of a server that lives in 2023: each is a second later, and stands in here."""
    told: list[datetime] = []
    seconds = count()

    def server_ms(database: Any) -> int:
        told.append(SERVER + timedelta(seconds=next(seconds)))
        return round(told[-1].timestamp() * 1000)

    monkeypatch.setattr(moments, "server_ms", server_ms)
    return told


def test_runs_and_results_are_dated_by_perfdb_s_clock(perfdb: PerfDB, asked: list[datetime]) -> None:
    """Start, end and last change of a run and of its stages, its invocation's, and a result's: each is an answer of
    the server, in the order of what happened; how far this host's clock is from it stands beside."""
    perfdb.start_run("run-1", "inv", "job", {"name": "s"})
    perfdb.stage_started("run-1", "load")
    perfdb.stage_finished("run-1", "load", output={}, duration_s=0.1)
    perfdb.save_result(result())
    perfdb.stage_started("run-1", "release")
    perfdb.stage_finished("run-1", "release", output={}, duration_s=0.1, last=True)
    perfdb.end_invocation("inv", "done")
    run, stored, invocation = (
        perfdb.get_run("run-1"),
        perfdb.get_result("run-1"),
        perfdb.get_invocation("inv"),
    )
    load, release = run.stages
    told = [
        run.started_at, load.started_at, load.ended_at, stored.created_at, release.started_at, release.ended_at,
        invocation.ended_at,
    ]  # fmt: skip
    assert len(told) == len(asked), "one question for each of these moments"
    for moment, answer in zip(told, asked, strict=True):  # less what went by until the exchange could begin
        assert moment is not None and timedelta(0) <= answer - moment < timedelta(seconds=0.9)
    assert invocation.started_at == run.started_at
    assert run.updated_at == run.ended_at == release.ended_at
    ahead_s = (datetime.now(UTC) - SERVER).total_seconds()
    for clock in (load.clock, release.clock, stored.clock):
        assert clock is not None and clock.ahead_s == pytest.approx(ahead_s, abs=600)


def test_runs_that_fail_or_are_ended_are_dated_by_it_too(perfdb: PerfDB, asked: list[datetime]) -> None:
    """The stage that failed and its run end at one moment, and so do a run that somebody else ended and its stages."""
    for run_id in ("run-1", "run-2"):
        perfdb.start_run(run_id, "inv", "job", {"name": "s"})
        perfdb.stage_started(run_id, "load")
    perfdb.stage_failed("run-1", "load", error="boom")
    failed, answer = perfdb.get_run("run-1"), asked[-1]
    assert failed.ended_at == failed.stages[0].ended_at == failed.updated_at
    assert failed.ended_at is not None and timedelta(0) <= answer - failed.ended_at < timedelta(seconds=0.9)
    perfdb.end_run("run-2", Verdict.failed("load", "its host is gone"))
    ended = perfdb.get_run("run-2")
    assert ended.ended_at == ended.stages[0].ended_at
    assert ended.ended_at is not None and timedelta(0) <= asked[-1] - ended.ended_at < timedelta(seconds=0.9)
    assert len(asked) == 6


def test_a_clock_that_is_set_amid_a_stage_shows_in_nothing(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host whose clock is six hours ahead, and set back amid the stage, no stage ends before it began, and how
    far the host's clock was off stands beside."""
    true_ns, ahead_s = time.time_ns, 21_600
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + ahead_s * 10**9)
    before = perfdb.now()
    perfdb.start_run("run-1", "inv", "job", {"name": "s"})
    perfdb.stage_started("run-1", "load")
    ahead_s = -30
    perfdb.stage_finished("run-1", "load", output={}, duration_s=0.1)
    perfdb.save_result(result())
    after, run, stored = perfdb.now(), perfdb.get_run("run-1"), perfdb.get_result("run-1")
    (load,) = run.stages
    assert load.ended_at is not None and load.clock is not None and stored.clock is not None
    assert before <= run.started_at <= load.started_at <= load.ended_at <= stored.created_at <= after
    assert load.clock.ahead_s == pytest.approx(21_600, abs=load.clock.error_s + 0.001)
    assert stored.clock.ahead_s == pytest.approx(-30, abs=stored.clock.error_s + 0.001)
