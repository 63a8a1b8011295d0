"""What requests wait for few connections, and what the client adds, against queues that are played through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from inferbench_tasks.loadgen.certificate import Certificate, OpenPlan, ShardUsage, certify
from inferbench_tasks.loadgen.connection_waits import free_from, with_waits
from inferbench_tasks.loadgen.layout import spans_of
from inferbench_tasks.loadgen.statistics import NAMES
from inferbench_tasks.loadgen.window import Window
from tests.samples import samples_table

S, MS, US = 10**9, 10**6, 10**3
START = 100 * S
QUEUE = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), min_size=1, max_size=60)
STALL = (START + 10 * S, START + 10 * S + 95 * MS)


def played(
    intended: list[int], service: list[int], connections: int, turn: int = 0, stall: tuple[int, int] = (0, 0)
) -> tuple[list[int], list[int]]:
    """Starts and ends of a queue, first come, first served, with so many servers; each the one that is free first.

    ``turn``: from an answer to the send of who waited for it. Within ``stall`` the client does nothing.
    """
    free = [0] * connections
    starts, ends = [], []
    for moment, length in zip(intended, service, strict=True):
        at = min(range(connections), key=free.__getitem__)
        start = _held(free[at] + turn if free[at] > moment else moment, stall)
        free[at] = _held(start + length, stall)
        starts.append(start)
        ends.append(free[at])
    return starts, ends


def _held(moment: int, stall: tuple[int, int]) -> int:
    return stall[1] if stall[0] <= moment < stall[1] else moment


@given(QUEUE, st.integers(1, 5))
def test_who_leaves_as_soon_as_a_connection_is_free_has_waited_for_nothing_else(
    requests: list[tuple[int, int]], connections: int
) -> None:
    """Of any queue with so many servers: its starts are the moments that the ends of others allow, to the ns."""
    intended = np.cumsum([gap for gap, _ in requests]) + 1
    starts, ends = played(intended.tolist(), [length for _, length in requests], connections)
    allowed = np.maximum(intended, free_from(np.array(ends), connections))
    assert allowed.tolist() == starts


def test_each_sender_has_connections_of_its_own() -> None:
    """Two senders with one each don't wait for one another; what was never sent lets nobody wait."""
    table = samples_table(
        {
            "intended_ns": [10, 11, 12, 13, 14], "sent_ns": [10, 11, 30, -1, 50], "done_ns": [30, 40, 45, 14, -1],
            "shard": [0, 1, 0, 0, 0],
        }
    )  # fmt: skip
    window = with_waits(Window.of(table, 5, 100), (1, 1), ())
    assert window.connection_wait_ns is not None
    assert window.connection_wait_ns.tolist() == [0, 0, 18, 0, 31]
    assert window.left_ns.tolist() == [10, 11, 12, -1, 19]
    assert window.queued
    assert with_waits(window, None, ()) is window


@given(QUEUE, st.integers(1, 5), st.integers(0, 30))
def test_the_wait_is_that_of_a_client_that_takes_no_time(
    requests: list[tuple[int, int]], connections: int, turn: int
) -> None:
    """Of any queue, whatever the client adds at each send: the wait is an ideal client's, the rest its own."""
    intended = (np.cumsum([gap for gap, _ in requests]) + 1).tolist()
    service = [length for _, length in requests]
    ideal, _ = played(intended, service, connections)
    sent, done = played(intended, service, connections, turn)
    table = samples_table({"intended_ns": intended, "sent_ns": sent, "done_ns": done})
    window = with_waits(Window.of(table, 0, 10_000), (connections,), ())
    assert window.connection_wait_ns is not None
    assert window.connection_wait_ns.tolist() == [a - b for a, b in zip(ideal, intended, strict=True)]
    late = (window.left_ns - window.intended_ns).tolist()
    assert late == [a - b for a, b in zip(sent, ideal, strict=True)]
    assert set((window.joined_ns - window.intended_ns).tolist()) <= {0, turn}


@given(QUEUE, st.integers(1, 5), st.integers(0, 30), st.integers(0, 40))
def test_what_is_done_before_a_request_leaves_hides_no_delay_of_the_client(
    requests: list[tuple[int, int]], connections: int, turn: int, prepare: int
) -> None:
    """Who waits is prepared meanwhile, so that the queue is one of requests that come later by it; what the client
    adds at each send is found as without it.
    """
    intended = np.cumsum([gap for gap, _ in requests]) + 1
    service = [length for _, length in requests]
    ideal, _ = played((intended + prepare).tolist(), service, connections)
    sent, done = played((intended + prepare).tolist(), service, connections, turn)
    columns: dict[str, Any] = {"intended_ns": intended, "sent_ns": sent, "done_ns": done}
    spans = dict(zip(spans_of("client").values(), ([prepare] * len(sent), [0] * len(sent)), strict=True))
    window = with_waits(Window.of(samples_table(columns | spans), 0, 10_000), (connections,), ())
    late = (window.left_ns - window.intended_ns).tolist()
    assert late == [a - b for a, b in zip(sent, ideal, strict=True)]
    assert set((window.joined_ns - window.intended_ns).tolist()) <= {0, turn}


def _load(
    rate_rps: float, service_ms: float, turn_us: int, connections: int = 1, stall: tuple[int, int] = (0, 0)
) -> tuple[Certificate, NDArray[Any], NDArray[Any]]:
    """Poisson for 20 s: the certificate and the latencies as recorded and with an ideal client, ms."""
    rng = np.random.default_rng(1)
    planned = START + np.sort(rng.uniform(0, 20 * S, rng.poisson(rate_rps * 20))).astype(np.int64)
    service = [int(service_ms * MS)] * len(planned)
    _, ideal = played(planned.tolist(), service, connections)
    sent, done = played(planned.tolist(), service, connections, turn_us * US, stall)
    stalls, length = (() if stall == (0, 0) else (stall,)), stall[1] - stall[0]
    usage = ShardUsage(
        shard=0, cpu_s=2.0, wall_s=20.0, max_stall_ns=length, stalls_ns=stalls, stalled_ns=length
    )
    certificate = certify(
        samples_table({"intended_ns": planned, "sent_ns": sent, "done_ns": done}),
        OpenPlan(planned, connections=(connections,)), [usage],
        measure_start_ns=START, measure_end_ns=START + 20 * S,
    )  # fmt: skip
    return certificate, (np.array(done) - planned) / 1e6, (np.array(ideal) - planned) / 1e6


def _p(latency_ms: NDArray[Any], quantile: float) -> float:
    return float(np.quantile(latency_ms, quantile, method="inverted_cdf"))


@pytest.mark.parametrize(
    ("rate_rps", "service_ms", "turn_us", "connections"),
    [(100, 8, 950, 1), (85, 10, 900, 1), (1500, 0.5, 100, 1), (90, 40, 3900, 4)],
)
def test_what_a_slow_client_makes_of_the_queue_is_its_own(
    rate_rps: float, service_ms: float, turn_us: int, connections: int
) -> None:
    """A turn-around that is small beside the service doubles a busy queue: all of that is told, the run is invalid,
    and each figure that it makes is withheld.
    """
    certificate, recorded, ideal = _load(rate_rps, service_ms, turn_us, connections)
    made = certificate.figures["client_made_ms"]
    for quantile in (0.5, 0.9, 0.95, 0.99):
        assert made[NAMES[quantile]] == pytest.approx(_p(recorded, quantile) - _p(ideal, quantile))
    assert made["mean"] == pytest.approx(recorded.mean() - ideal.mean())
    assert "client_share_p50" in {check.name for check in certificate.checks if not check.ok}
    assert {"mean", "p50", "p99"} <= set(certificate.withheld["e2e_latency_ms"])
    waited = certificate.figures["connection_wait_p50_ms"]
    assert waited == pytest.approx(_p(ideal, 0.5) - service_ms, abs=1e-6)


def test_a_pause_of_the_client_is_its_own_for_all_who_wait_behind_it() -> None:
    """95 ms of 20 s, at 92% of what one connection carries: told, at least as much as it was, and not too much here."""
    certificate, recorded, ideal = _load(115, 8, 0, stall=STALL)
    made = certificate.figures["client_made_ms"]
    assert made["mean"] == pytest.approx(recorded.mean() - ideal.mean(), abs=0.1)
    assert _p(recorded, 0.5) - _p(ideal, 0.5) <= made["p50"] < 4
    assert certificate.valid, certificate.reasons
    assert certificate.withheld == {}


@pytest.mark.parametrize(("rate_rps", "service_ms"), [(100, 8), (10, 500), (2000, 1)])
def test_a_fast_client_keeps_its_figures(rate_rps: float, service_ms: float) -> None:
    """20 us at each send: nothing is withheld. Nor is a sender called stopped for what that sums up to in a queue that
    grows, where it is the same small part of each wait.
    """
    certificate, _, _ = _load(rate_rps, service_ms, 20)
    assert certificate.valid, certificate.reasons
    assert certificate.withheld == {}
    assert certificate.figures["lateness_max_ms"] == pytest.approx(0.02)


def test_a_queue_that_grows_before_few_connections_is_not_called_the_servers() -> None:
    """20 requests/s of one user, who has an answer 15 ms after the send and works 40 ms on it: nobody can tell whose
    time it was, and the server, which is idle most of the time, is not named.
    """
    planned = START + np.arange(400) * 50 * MS
    sent, done = played(planned.tolist(), [55 * MS] * 400, 1)
    usage = ShardUsage(shard=0, cpu_s=2.0, wall_s=20.0, max_stall_ns=0, stalls_ns=(), stalled_ns=0)
    certificate = certify(
        samples_table({"intended_ns": planned, "sent_ns": sent, "done_ns": done}),
        OpenPlan(planned, connections=(1,)), [usage], measure_start_ns=START, measure_end_ns=START + 20 * S,
    )  # fmt: skip
    assert "the few connections that were asked for" in certificate.figures["growing_backlog"]
    assert not any("server" in warning for warning in certificate.warnings)


def test_a_server_that_falls_behind_many_connections_is_named() -> None:
    """64 connections that are never all in use: what grows is at the server."""
    planned = START + np.arange(2000) * 10 * MS
    done = planned + np.linspace(10 * MS, 500 * MS, 2000).astype(np.int64)
    usage = ShardUsage(shard=0, cpu_s=2.0, wall_s=20.0, max_stall_ns=0, stalls_ns=(), stalled_ns=0)
    certificate = certify(
        samples_table({"intended_ns": planned, "done_ns": done}),
        OpenPlan(planned, connections=(64,)), [usage], measure_start_ns=START, measure_end_ns=START + 20 * S,
    )  # fmt: skip
    assert "the server did not keep up" in certificate.figures["growing_backlog"]
    assert "connection_wait_p50_ms" not in certificate.figures
