"""The model of our server's queue, against results that are known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inferbench_tasks.queueing.server import Batcher, Server, Service
from inferbench_tasks.queueing.simulate import closed_loop, open_loop

REQUESTS = 100_000
MS = 1e6


def fixed(ms: float) -> Service:
    return lambda rows, rng: ms * MS


def exponential(ms: float) -> Service:
    return lambda rows, rng: float(rng.exponential(ms * MS))


def poisson(rate_per_ms: float) -> np.ndarray:
    return np.cumsum(np.random.default_rng(7).exponential(MS / rate_per_ms, REQUESTS))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_m_d_1(load: float) -> None:
    """The mean wait is load * service / (2 (1 - load)) (Pollaczek and Khinchine), the busy share is the load."""
    outcome = open_loop(Server(fixed(1.0)), poisson(load), np.random.default_rng(1))
    assert outcome.waits_ns.mean() / MS == pytest.approx(load / (2 * (1 - load)), rel=0.04)
    assert outcome.utilisation() == pytest.approx(load, rel=0.02)


def test_m_m_1() -> None:
    """Latencies are exponential with rate mu - lambda: the mean, and p99 = ln(100) times the mean."""
    outcome = open_loop(Server(exponential(1.0)), poisson(0.5), np.random.default_rng(1))
    assert outcome.latencies_ns.mean() / MS == pytest.approx(2.0, rel=0.04)
    assert np.quantile(outcome.latencies_ns, 0.99) / MS == pytest.approx(2.0 * math.log(100), rel=0.06)


def test_m_m_2() -> None:
    """Two instances with load 0.6 each: a request waits with probability 0.45 (Erlang C), 0.5625 ms in the mean."""
    outcome = open_loop(Server(exponential(1.0), instances=2), poisson(1.2), np.random.default_rng(1))
    assert (outcome.waits_ns > 0).mean() == pytest.approx(0.45, rel=0.04)
    assert outcome.waits_ns.mean() / MS == pytest.approx(0.5625, rel=0.06)


def test_d_d_1() -> None:
    """Regular arrivals wait for nobody below capacity; above it each waits longer by the same time."""
    calm = open_loop(Server(fixed(2.0)), np.arange(10) * 3 * MS, np.random.default_rng(1))
    assert calm.waits_ns.tolist() == [0.0] * 10
    busy = open_loop(Server(fixed(2.0)), np.arange(5) * 1.5 * MS, np.random.default_rng(1))
    assert (busy.waits_ns / MS).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(("users", "per_s"), [(1, 125.0), (2, 250.0), (4, 500.0), (8, 500.0)])
def test_closed_loop(users: int, per_s: float) -> None:
    """n users, 2 ms of service and 6 ms of pause: min(n / 8 ms, 1 / 2 ms) requests per second."""
    outcome = closed_loop(Server(fixed(2.0)), users, 6 * MS, 10e9, np.random.default_rng(1))
    assert len(outcome.sent_ns) / 10 == pytest.approx(per_s, rel=0.005)


def test_what_a_server_adds_delays_the_answer_only() -> None:
    """``request_ns`` is in each latency, and a user waits for it, but no instance is busy with it."""
    server = Server(fixed(2.0), request_ns=3 * MS)
    outcome = closed_loop(server, 1, 0.0, 50 * MS, np.random.default_rng(1))
    assert (outcome.latencies_ns / MS).tolist() == [5.0] * 10
    assert outcome.busy_ns == 20 * MS


def test_capacity_is_that_of_full_batches() -> None:
    """Batches of 1 + rows ms: 2 instances with up to 4 rows give 2 * 4 / 5 ms, without batching 2 / 2 ms."""
    service: Service = lambda rows, rng: (1.0 + rows) * MS  # noqa: E731
    rng = np.random.default_rng(1)
    assert Server(service, 2, Batcher(4)).capacity_rps(1, rng) == pytest.approx(1600.0)
    assert Server(service, 2, Batcher(4)).capacity_rps(3, rng) == pytest.approx(2 / 4e-3)
    assert Server(service, 2).capacity_rps(1, rng) == pytest.approx(1000.0)
