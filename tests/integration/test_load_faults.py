"""Servers that misbehave: no load hangs, no record is lost, each ends in a clear verdict.

What matters is which request ended how, and when none of it: these run beside other tests. See ``test_load_amid``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.null_server import answer_message
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.records import column
from inferbench_tasks.loadgen.summary import summarise
from tests.load_outcomes import errors, planned
from tests.load_servers import (
    ANSWER_BYTES,
    FaultyGrpc,
    FaultyHttp,
    endpoint,
    free_port,
    http_answer,
    run_load,
    serving,
)

pytestmark = pytest.mark.integration
POISSON: dict[str, Any] = {"kind": "poisson", "rate_rps": 200}
_SHARD = "inferbench_tasks.loadgen.shard"
#: Longer than a busy machine keeps an answer: what times out here is the server's.
PATIENT: dict[str, Any] = {"arrivals": POISSON, "timeout_ms": 20_000.0}


def test_a_server_that_refuses_ends_the_load_before_it_begins(tmp_path: Path) -> None:
    """Nobody listens: an error that names the address, and no process left, not even one that nobody waited for."""
    before = {child.pid for child in psutil.Process().children()}
    port = free_port()
    with pytest.raises(LoadError, match=f"no connection to 127.0.0.1:{port}"):
        run_load(tmp_path, endpoint("http", port), arrivals=POISSON)
    left = [child for child in psutil.Process().children() if child.pid not in before]
    assert not [
        child for child in left if child.status() == psutil.STATUS_ZOMBIE or _SHARD in child.cmdline()
    ]


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
    assert not outcome.certificate(plan).valid


def test_a_load_ends_early_when_most_requests_fail(tmp_path: Path) -> None:
    """With half of the requests failed a long load is not applied to its end, and says why."""
    with serving(lambda: FaultyHttp(lambda n: http_answer("503 Busy", b"overloaded"))) as server:
        _, outcome = run_load(tmp_path, endpoint("http", server.port), **PATIENT, duration_s=60.0)
    assert outcome.applied.stopped_early is not None
    assert "had failed" in outcome.applied.stopped_early
    assert outcome.applied.explanations == {"http_5xx": "HTTP 503: overloaded"}
    assert set(errors(outcome)) <= {"http_5xx", "cancelled"}
    assert outcome.measure_end_ns - outcome.measure_start_ns < 30e9


def test_a_server_that_resets_loses_only_those_requests(tmp_path: Path) -> None:
    """Every fifth answer is a reset: a fifth of the records says so, the others are good."""
    script: Callable[[int], Any] = lambda n: "reset" if n % 5 == 4 else http_answer()  # noqa: E731
    with serving(lambda: FaultyHttp(script)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), **PATIENT)
    assert outcome.requests == planned(plan)
    assert set(errors(outcome)) == {"reset"}
    assert 0 < errors(outcome)["reset"] <= outcome.requests / 5 + 1


def test_a_server_that_closes_after_each_answer_is_reconnected_without_errors(tmp_path: Path) -> None:
    """Connection: close is honoured: no request is sent on a connection that is about to end."""

    class Closing(FaultyHttp):
        def _answer_one(self, transport: Any) -> None:
            transport.write(http_answer("200 OK", None, "Connection: close"))
            transport.close()

    with serving(lambda: Closing(lambda n: None)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), **PATIENT)
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
            tmp_path, endpoint("http", server.port), **PATIENT, expected=(4,), max_error_ratio=1.0,
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


def test_a_slow_server_makes_the_latency_and_not_the_schedule(tmp_path: Path) -> None:
    """Answers after 50 ms: no request leaves later for it, and the latency is at least that."""

    class Slow(FaultyHttp):
        def _answer_one(self, transport: Any) -> None:
            import asyncio

            asyncio.get_running_loop().call_later(0.05, transport.write, http_answer())

    with serving(lambda: Slow(lambda n: None)) as server:
        plan, outcome = run_load(tmp_path, endpoint("http", server.port), **PATIENT)
    assert errors(outcome) == {}
    table = outcome.table()
    assert (column(table, "done_ns") - column(table, "sent_ns")).min() >= 49e6
    assert outcome.requests == planned(plan)


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
    assert outcome.certificate(plan).checks


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
    most = next(check for check in outcome.certificate(plan).checks if check.name == "in_flight_max")
    assert most.value <= 4
