"""Which requests go together, and when: by hand, and against the scheduler that really runs."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.queueing.server import Batcher, Server
from inferbench_tasks.queueing.simulate import closed_loop, open_loop
from inferbench_tasks.servers import scheduler as real
from inferbench_tasks.servers.config import Batching
from inferbench_tasks.servers.statistics import Statistics

MS = 1_000_000


@pytest.mark.parametrize("preferred", [(), (4,), (2, 6), (3, 5, 99)])
@pytest.mark.parametrize("max_rows", [1, 6, 8])
def test_takes_what_the_scheduler_takes(max_rows: int, preferred: tuple[int, ...]) -> None:
    """For any queue of equal requests both take as many, and both either at once or later."""
    scheduler = real.Scheduler([], Batching(max_batch_size=max_rows, max_delay_ms=1, preferred_batch_sizes=preferred),
                               Statistics())  # fmt: skip
    batcher = Batcher(max_rows, MS, preferred)
    for rows in range(1, max_rows + 1):
        for waiting in range(1, 20):
            scheduler._waiting.clear()
            scheduler._waiting.extend(real.Execution({}, rows, lambda _: None) for _ in range(waiting))
            assert batcher.takes(waiting, rows) == scheduler._prefix(), (rows, waiting)


def test_the_queue_is_as_long_as_the_real_one() -> None:
    """The model refuses from the same number of waiting requests on."""
    assert Server(lambda rows, rng: 1.0).max_waiting == real.MAX_WAITING


def test_patience() -> None:
    """Up to 4 rows, 5 ms of patience, 10 ms of service, worked out by hand.

    0 and 2 go at 5 (0's patience). 6, 7, 8 and 9 are four at 9, the instance is free at 15. 30 is alone until 35.
    """
    server = Server(lambda rows, rng: 10.0 * MS, batcher=Batcher(4, 5 * MS))
    sent = np.array([0, 2, 6, 7, 8, 9, 30]) * MS
    outcome = open_loop(server, sent, np.random.default_rng(1))
    assert outcome.batches.tolist() == [2, 4, 1]
    assert (outcome.taken_ns / MS).tolist() == [5, 5, 15, 15, 15, 15, 35]
    assert (outcome.answered_ns / MS).tolist() == [15, 15, 25, 25, 25, 25, 45]


def test_a_full_batch_goes_at_once_and_leaves_the_rest() -> None:
    """Five at once with up to 4 rows on two instances: four go at 0, the fifth when its patience ends."""
    server = Server(lambda rows, rng: 10.0 * MS, 2, Batcher(4, 3 * MS))
    outcome = open_loop(server, np.zeros(5), np.random.default_rng(1))
    assert (outcome.taken_ns / MS).tolist() == [0, 0, 0, 0, 3]


def test_too_many_are_refused() -> None:
    """One in execution, two places in the queue: of five that come one after the other two are refused."""
    server = Server(lambda rows, rng: 100.0 * MS, max_waiting=2)
    outcome = open_loop(server, np.arange(5) * MS, np.random.default_rng(1))
    assert outcome.refused == 2
    assert (outcome.answered_ns / MS).tolist() == [100, 200, 300]


def test_what_makes_no_sense_is_refused() -> None:
    """Each refusal names the value."""
    rng = np.random.default_rng(1)
    server = Server(lambda rows, rng: 1.0, batcher=Batcher(4))
    with pytest.raises(ValueError, match="5 rows, max_batch_size is 4"):
        open_loop(server, [0.0], rng, rows=5)
    with pytest.raises(ValueError, match="goes back from 2 to 1"):
        open_loop(server, [2.0, 1.0], rng)
    with pytest.raises(ValueError, match="users is 8193"):
        closed_loop(server, 8193, 0, 1e9, rng)
    with pytest.raises(ValueError, match="instances is 0"):
        Server(lambda rows, rng: 1.0, 0)
