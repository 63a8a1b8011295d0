"""Loads amid which a server or a sender stops, and others in which moments matter or that take a machine: alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.outcome import apply_load
from inferbench_tasks.loadgen.records import column
from tests.load_outcomes import errors, planned
from tests.load_servers import (
    ANSWER_BYTES,
    FaultyGrpc,
    FaultyHttp,
    chunked_answer,
    endpoint,
    http_answer,
    load_plan,
    run_load,
    serving,
)

pytestmark = pytest.mark.integration
POISSON: dict[str, Any] = {"kind": "poisson", "rate_rps": 200}


def test_chunked_answers_that_come_in_pieces_are_good_answers(tmp_path: Path) -> None:
    """Transfer-Encoding: chunked, spread over several reads; the first byte is before the last."""
    with serving(lambda: FaultyHttp(lambda n: chunked_answer())) as server:
        _, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON, expected=(4,))
    assert errors(outcome) == {}
    table = outcome.table()
    assert ((column(table, "done_ns") - column(table, "first_byte_ns")) > 0).all()


def senders() -> list[psutil.Process]:
    """The sender processes of this test."""
    return [c for c in psutil.Process().children() if "inferbench_tasks.loadgen.shard" in c.cmdline()]


def when_running(action: Callable[[psutil.Process], None], after_s: float) -> threading.Thread:
    """Do something to the first sender, a while after it has begun to record."""

    def act() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not senders():
            time.sleep(0.02)
        process = senders()[0]
        while time.monotonic() < deadline and not any(
            f.path.endswith(".spool") and os.path.getsize(f.path) > 20_000 for f in process.open_files()
        ):
            time.sleep(0.02)
        time.sleep(after_s)
        action(process)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_dies_and_comes_back_is_seen_as_it_was(tmp_path: Path, protocol: str) -> None:
    """Before: good. Meanwhile: connection errors or resets, no hang. Afterwards: good again."""
    make = (lambda: FaultyHttp(lambda n: http_answer())) if protocol == "http" else FaultyGrpc

    def down_for_700_ms(sender: psutil.Process) -> None:
        server.stop()
        time.sleep(0.7)
        server.start()

    with serving(make) as server:
        plan = load_plan(
            tmp_path, endpoint(protocol, server.port), arrivals=POISSON, duration_s=3.0, max_error_ratio=1.0
        )
        thread = when_running(down_for_700_ms, 0.1)
        outcome = apply_load(plan, tmp_path / "samples.parquet")
        thread.join()
    assert outcome.requests == planned(plan)
    assert set(errors(outcome)) <= {"connection", "reset", "timeout"}
    assert errors(outcome)["connection"] > 0
    table = outcome.table()
    status = table.column("status").to_pylist()
    assert status[0] == "ok"
    assert status[-1] == "ok"


def test_a_sender_that_was_stopped_for_200_ms_makes_the_certificate_invalid(tmp_path: Path) -> None:
    """SIGSTOP of the client machine: both numbers stand in the reasons."""

    def stop(process: psutil.Process) -> None:
        process.suspend()
        time.sleep(0.2)
        process.resume()

    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        plan = load_plan(tmp_path, endpoint("http", server.port), arrivals=POISSON, duration_s=3.0)
        thread = when_running(stop, 0.6)
        outcome = apply_load(plan, tmp_path / "samples.parquet")
        thread.join()
    found = outcome.certificate(plan)
    assert not found.valid
    assert any("held up" in reason.text for reason in found.reasons)
    assert outcome.requests == planned(plan)


def test_a_sender_that_is_killed_is_an_error_and_its_records_are_kept(tmp_path: Path) -> None:
    """SIGKILL of one of two senders: the load ends at once, and says which and how."""
    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        plan = load_plan(tmp_path, endpoint("http", server.port), arrivals=POISSON, duration_s=30.0, shards=2)
        thread = when_running(lambda process: process.send_signal(signal.SIGKILL), 0.5)
        outcome = apply_load(plan, tmp_path / "samples.parquet")
        thread.join()
    assert outcome.applied.problem is not None
    assert "was killed by signal 9" in outcome.applied.problem
    assert outcome.requests > 50
    assert set(column(outcome.table(), "shard").tolist()) == {0, 1}
    assert not senders()


def test_a_cancelled_load_keeps_its_records(tmp_path: Path) -> None:
    """The user stops it: the senders end, what was recorded stays."""
    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        plan = load_plan(tmp_path, endpoint("http", server.port), arrivals=POISSON, duration_s=30.0)
        begun = time.monotonic()
        outcome = apply_load(
            plan, tmp_path / "samples.parquet", cancelled=lambda: time.monotonic() - begun > 3.0
        )
    assert outcome.applied.cancelled
    assert not senders()
    assert outcome.requests > 0


def test_100_000_requests_at_one_instant_are_all_recorded(tmp_path: Path) -> None:
    """Offline: every request has one record, once, whichever connection it had to wait for.

    Against a server that answers at once the client is the bottleneck, and the certificate may say so.
    """
    with null_server("http", ANSWER_BYTES) as where:
        plan, outcome = run_load(
            tmp_path, where, arrivals={"kind": "offline", "requests": 100_000},
            duration_s=120.0, warmup_s=0.0, connections=64, timeout_ms=30_000.0,
        )  # fmt: skip
    assert outcome.requests == 100_000
    assert len(set(column(outcome.table(), "request_id").tolist())) == 100_000
    assert errors(outcome) == {}
    assert all("the client was the bottleneck" in reason.text for reason in outcome.certificate(plan).reasons)


def test_realtime_without_the_right_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """SCHED_FIFO needs a capability: where it is missing the load is refused before it starts."""
    from inferbench_tasks.timing.realtime import realtime_problem

    problem = realtime_problem()
    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        where = endpoint("http", server.port)
        if problem:
            assert "CAP_SYS_NICE" in problem
            with pytest.raises(InputError, match=r"load\.realtime"):
                run_load(tmp_path, where, arrivals=POISSON, realtime=True)
        else:
            _, outcome = run_load(tmp_path, where, arrivals=POISSON, realtime=True)
            assert errors(outcome) == {}
