"""Servers and machines that misbehave: no load hangs, no record is lost, each ends in a clear verdict."""

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

from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.loadgen.certificate import Certificate
from inferbench_tasks.loadgen.null_server import answer_message, null_server
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import column
from inferbench_tasks.loadgen.summary import summarise
from tests.load_servers import (
    ANSWER_BYTES,
    FaultyGrpc,
    FaultyHttp,
    chunked_answer,
    endpoint,
    free_port,
    http_answer,
    load_plan,
    run_load,
    serving,
)

pytestmark = pytest.mark.integration
POISSON: dict[str, Any] = {"kind": "poisson", "rate_rps": 200}


def errors(outcome: Outcome) -> dict[str, int]:
    """The measured window's errors by kind."""
    found = summarise(
        outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
    )
    kinds: dict[str, int] = found["errors"]
    return kinds


def certificate(plan: LoadPlan, outcome: Outcome) -> Certificate:
    """The judgement on it."""
    return outcome.certificate(plan)


def planned(plan: LoadPlan) -> int:
    """Requests of the schedule, warm-up included."""
    import numpy as np

    return sum(len(np.load(s.offsets_path)) for s in plan.segments if s.offsets_path)


def test_a_server_that_refuses_ends_the_load_before_it_begins(tmp_path: Path) -> None:
    """Nobody listens: an error that names the address, and no process left."""
    port = free_port()
    with pytest.raises(LoadError, match=f"no connection to 127.0.0.1:{port}"):
        run_load(tmp_path, endpoint("http", port), arrivals=POISSON)
    assert not [c for c in psutil.Process().children() if "loadgen.shard" in " ".join(c.cmdline())]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_hangs_is_a_timeout_for_every_request(tmp_path: Path, protocol: str) -> None:
    """Requests end at their deadline, as timeouts; the certificate is not valid."""
    with serving(
        lambda: FaultyHttp(lambda n: None) if protocol == "http" else FaultyGrpc(lambda n, s: [])
    ) as server:
        plan, outcome = run_load(
            tmp_path, endpoint(protocol, server.port), arrivals=POISSON, timeout_ms=300.0, max_error_ratio=1.0
        )
    assert outcome.requests == planned(plan)
    assert set(errors(outcome)) == {"timeout"}
    table = outcome.table()
    waited_ms = (column(table, "done_ns") - column(table, "sent_ns")) / 1e6
    assert waited_ms.min() >= 299
    assert not certificate(plan, outcome).valid


def test_a_load_ends_early_when_most_requests_fail(tmp_path: Path) -> None:
    """With half of the requests failed a long load is not applied to its end, and says why."""
    with serving(lambda: FaultyHttp(lambda n: http_answer("503 Busy", b"overloaded"))) as server:
        _, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON, duration_s=60.0)
    assert outcome.applied.stopped_early is not None
    assert "had failed" in outcome.applied.stopped_early
    assert outcome.applied.explanations == {"http_5xx": "HTTP 503: overloaded"}
    assert set(errors(outcome)) <= {"http_5xx", "cancelled"}
    assert outcome.measure_end_ns - outcome.measure_start_ns < 30e9


def test_a_server_that_resets_loses_only_those_requests(tmp_path: Path) -> None:
    """Every fifth answer is a reset: a fifth of the records says so, the others are good."""
    script: Callable[[int], Any] = lambda n: "reset" if n % 5 == 4 else http_answer()  # noqa: E731
    with serving(lambda: FaultyHttp(script)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON)
    assert outcome.requests == planned(plan)
    assert set(errors(outcome)) == {"reset"}
    assert 0 < errors(outcome)["reset"] <= outcome.requests / 5 + 1


def test_chunked_answers_that_come_in_pieces_are_good_answers(tmp_path: Path) -> None:
    """Transfer-Encoding: chunked, spread over several reads; the first byte is before the last."""
    with serving(lambda: FaultyHttp(lambda n: chunked_answer())) as server:
        _, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON, expected=(4,))
    assert errors(outcome) == {}
    table = outcome.table()
    assert ((column(table, "done_ns") - column(table, "first_byte_ns")) > 0).all()


def test_a_server_that_closes_after_each_answer_is_reconnected_without_errors(tmp_path: Path) -> None:
    """Connection: close is honoured: no request is sent on a connection that is about to end."""

    class Closing(FaultyHttp):
        def _answer_one(self, transport: Any) -> None:
            transport.write(http_answer("200 OK", None, "Connection: close"))
            transport.close()

    with serving(lambda: Closing(lambda n: None)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON)
    assert outcome.requests == planned(plan)
    assert errors(outcome) == {}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("wrong shape", answer_message("http", 2 * ANSWER_BYTES)),
        ("no bytes", http_answer("200 OK", b'{"outputs":[{"name":"output","datatype":"FP32","shape":[1,4],'
                                 b'"parameters":{"binary_data_size":0}}]}')),
        ("no JSON", http_answer("200 OK", b"hello")),
        ("not HTTP", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_never_taken_for_a_good_one(tmp_path: Path, name: str, body: bytes) -> None:
    """200 OK with the wrong content, and what is no HTTP at all, are bad responses, each of them."""
    with serving(lambda: FaultyHttp(lambda n: body)) as server:
        _, outcome = run_load(
            tmp_path, endpoint("http", server.port), arrivals=POISSON, expected=(4,), max_error_ratio=1.0,
            duration_s=0.5,
        )  # fmt: skip
    assert set(errors(outcome)) == {"bad_response"}
    assert "bad_response" in outcome.applied.explanations
    assert summary_ok(outcome) == 0


def summary_ok(outcome: Outcome) -> int:
    """Good answers of the window."""
    found = summarise(
        outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
    )
    good: int = found["ok"]
    return good


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


def test_a_slow_server_makes_the_latency_and_not_the_schedule(tmp_path: Path) -> None:
    """Answers after 50 ms: no request leaves later for it, and the latency is at least that."""

    class Slow(FaultyHttp):
        def _answer_one(self, transport: Any) -> None:
            import asyncio

            asyncio.get_running_loop().call_later(0.05, transport.write, http_answer())

    with serving(lambda: Slow(lambda n: None)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), arrivals=POISSON)
    assert errors(outcome) == {}
    table = outcome.table()
    assert (column(table, "done_ns") - column(table, "sent_ns")).min() >= 49e6
    assert outcome.requests == planned(plan)


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
    found = certificate(plan, outcome)
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
    assert all(
        "the client was the bottleneck" in reason.text for reason in certificate(plan, outcome).reasons
    )


def test_a_saturated_server_ends_the_load_where_that_is_asked_for(tmp_path: Path) -> None:
    """More than ``max_backlog`` requests without an answer: the load ends early and says so."""
    with serving(lambda: FaultyHttp(lambda n: None)) as server:
        _, outcome = run_load(
            tmp_path, endpoint("http", server.port), arrivals=POISSON, duration_s=60.0, timeout_ms=60_000.0,
            max_backlog=100,
        )  # fmt: skip
    assert outcome.applied.stopped_early is not None
    assert "saturated" in outcome.applied.stopped_early


@pytest.mark.parametrize("shards", [1, 3])
def test_max_requests_measures_exactly_so_many(tmp_path: Path, shards: int) -> None:
    """Open loop: the schedule is cut; its window ends where the next request would have left."""
    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        plan, outcome = run_load(
            tmp_path,
            endpoint("http", server.port),
            arrivals=POISSON,
            duration_s=30.0,
            max_requests=150,
            shards=shards,
        )
    found = summarise(
        outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
    )
    assert found["requests"] == 150
    assert certificate(plan, outcome).checks


def test_max_requests_of_a_closed_loop_measures_exactly_so_many(tmp_path: Path) -> None:
    """The users of the warm-up go on: there are never more of them, however many connections there are."""
    with serving(lambda: FaultyHttp(lambda n: http_answer())) as server:
        plan, outcome = run_load(
            tmp_path,
            endpoint("http", server.port),
            arrivals={"kind": "closed_loop", "concurrency": 4},
            connections=16,
            warmup_s=0.5,
            duration_s=30.0,
            max_requests=2000,
        )
    found = summarise(
        outcome.table(), measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns
    )
    assert found["requests"] == 2000
    most = next(check for check in certificate(plan, outcome).checks if check.name == "in_flight_max")
    assert most.value <= 4


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
