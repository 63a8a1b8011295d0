"""A queue as operations on arrays, against the loop over its events."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load.added import Added, Pause
from inferbench_tasks.brick_jobs.under_load.distribution import Distribution
from inferbench_tasks.brick_jobs.under_load.services import Services
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.queueing.simulate import open_loop
from inferbench_tasks.queueing.vectorised import Draws, one_by_one

MS = 1e6


def spread(mean_ns: float, seed: int) -> Distribution:
    return Distribution.of(mean_ns * np.exp(0.4 * np.random.default_rng(seed).standard_normal(2000)))


def server(*, asleep: bool, front_ns: float, max_waiting: int = 8192) -> Server:
    """5 ms, and up to half a millisecond more after pauses."""
    pauses = [Pause(MS * 2**at, 0.1 * at * MS, spread((0.3 + 0.1 * at) * MS, at)) for at in range(1, 6)]
    added = Added(front_ns, 0.05 * MS, spread(0.2 * MS, 0), tuple(pauses) if asleep else ())
    services = Services({1: 5 * MS}, {1: (4 * MS, 6 * MS)}, spread(1.0, 99))
    return Server(
        services.service(1.0, added.batch_ns),
        request_ns=added.rest,
        front_ns=front_ns,
        batch_idle_ns=added.batch_after,
        max_waiting=max_waiting,
        draws=Draws(services.services(1.0, added.batch_ns), added.rests, added.batches_after),
    )


@pytest.mark.parametrize("asleep", [False, True])
@pytest.mark.parametrize("front_ns", [0.0, 0.2 * MS, 7 * MS])
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.95, 1.2])
def test_both_give_the_same_times(asleep: bool, front_ns: float, rate: float) -> None:
    """Of the same random numbers, to rounding: with a server that sleeps or not, a slow event loop, too many requests;
    and both leave the generator alike."""
    one = server(asleep=asleep, front_ns=front_ns)
    gaps = np.random.default_rng(3).exponential(5.5 * MS / rate, 1500)
    gaps[:200] *= np.random.default_rng(4).integers(0, 2, 200)  # some come at one moment
    sent = np.cumsum(gaps)
    by_arrays, by_loop = np.random.default_rng(7), np.random.default_rng(7)
    assert one.draws is not None
    found = one_by_one(one.draws, sent, front_ns, 8192, 1, np.random.default_rng(7))
    assert found is not None
    fast, slow = open_loop(one, sent, by_arrays), open_loop(replace(one, draws=None), sent, by_loop)
    for field in fields(slow):
        expected = getattr(slow, field.name)
        assert getattr(fast, field.name) == pytest.approx(expected, abs=1.0), field.name
    assert by_arrays.random() == by_loop.random()


def test_a_queue_that_overflows_is_left_to_the_loop() -> None:
    """Requests are refused, the same ones, and the generator is where it was."""
    one = server(asleep=True, front_ns=0.1 * MS, max_waiting=5)
    sent = np.arange(200) * 2 * MS
    fast = open_loop(one, sent, np.random.default_rng(1))
    slow = open_loop(replace(one, draws=None), sent, np.random.default_rng(1))
    assert fast.refused > 50 and fast.refused_ns.tolist() == slow.refused_ns.tolist()
    assert fast.answered_ns.tolist() == slow.answered_ns.tolist()
