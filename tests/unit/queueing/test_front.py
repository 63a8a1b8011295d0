"""The server's event loop as a queue in front of its own."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.queueing.server import Batcher, Server
from inferbench_tasks.queueing.simulate import closed_loop, open_loop

MS = 1e6


def test_it_is_a_queue_by_itself() -> None:
    """Requests of one moment leave it one after the other, 1 ms each; an instance that is faster adds its own time."""
    server = Server(lambda rows, rng: 0.5 * MS, front_ns=MS)
    outcome = open_loop(server, [0.0, 0.0, 0.0], np.random.default_rng(1))
    assert (outcome.latencies_ns / MS).tolist() == [1.5, 2.5, 3.5]


def test_it_bounds_the_capacity() -> None:
    """1,000 requests/s where it takes 1 ms each and two instances would manage 4,000; so do users who never pause."""
    server = Server(lambda rows, rng: 0.5 * MS, instances=2, front_ns=MS)
    assert server.capacity_rps(1, np.random.default_rng(1)) == pytest.approx(1000)
    outcome = closed_loop(server, 8, 0.0, 1e9, np.random.default_rng(1))
    assert len(outcome.sent_ns) == pytest.approx(1000, rel=0.02)


def test_patience_begins_behind_it() -> None:
    """A batch of one waits 2 ms for others from when it is in the queue, 1 ms after it was sent."""
    server = Server(lambda rows, rng: MS, batcher=Batcher(4, 2_000_000), front_ns=MS)
    outcome = open_loop(server, [0.0], np.random.default_rng(1))
    assert (outcome.latencies_ns / MS).tolist() == [4.0]


def test_a_delay_may_be_drawn_for_each_request() -> None:
    """Uniform between 0 and 2 ms: 1 ms more in the mean, and the instance is as busy as without."""
    server = Server(lambda rows, rng: MS, request_ns=lambda idle_ns, rng: float(rng.uniform(0, 2 * MS)))
    outcome = open_loop(server, np.arange(2000) * 10 * MS, np.random.default_rng(1))
    assert outcome.latencies_ns.mean() / MS == pytest.approx(2, rel=0.03)
    assert outcome.busy_ns / MS == pytest.approx(2000)


def test_what_sleeps_has_to_be_woken() -> None:
    """Twice its idle time is added to each request, and once an instance's to its batch: 10 ms after the last answer,
    at once behind another request, and while an instance works although the event loop sleeps."""
    server = Server(
        lambda rows, rng: 4 * MS,
        instances=2,
        request_ns=lambda idle_ns, rng: 2 * min(idle_ns, 10 * MS),
        batch_idle_ns=lambda idle_ns: min(idle_ns, 10 * MS),
    )
    moments = np.array([0.0, 0.0, 3.0, 100.0]) * MS
    outcome = open_loop(server, moments, np.random.default_rng(1))
    # The first batch is the first of all: its instance was never used, which is as long as can be.
    assert (outcome.latencies_ns / MS).tolist() == [14.0, 4.0, 11.0, 34.0]


def test_a_negative_time_is_refused() -> None:
    """With the name of the field."""
    with pytest.raises(ValueError, match="front_ns"):
        Server(lambda rows, rng: MS, front_ns=-1.0)
