"""One instance that takes request after request: its queue as operations on arrays, many times faster than a loop.

An end is the latest of what each request before it makes of it (Lindley, 1952), as long as nothing depends on how long
somebody slept. That does, but hardly: pauses are found again from the times with what they cost, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.queueing.outcome import Outcome

Values = NDArray[np.float64]
#: Changes of times below that are rounding, ns.
_NOTHING_NS = 0.01
#: After so many rounds without an end the loop has to do it.
_MOST_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Draws:
    """What a server draws for many requests at once, of numbers in [0, 1): one for each service, one for each delay.

    ``services``: of batches of so many rows (``Server.service``); ``delays``: after so long an idle event loop
    (``Server.request_ns``); ``waking``: after so long without anything to do (``Server.batch_idle_ns``).
    """

    services: Callable[[int, Values], Values]
    delays: Callable[[Values, Values], Values]
    waking: Callable[[Values], Values]


def one_by_one(
    draws: Draws, sent_ns: Values, front_ns: float, max_waiting: int, rows: int, rng: np.random.Generator
) -> Outcome | None:
    """As the loop, which draws the same numbers in the same order; None where requests would be refused, or pauses and
    times do not settle. ``sent_ns`` ascends."""
    count = len(sent_ns)
    uniform = rng.random(2 * count)
    order = np.arange(count)
    queued = (order + 1) * front_ns + np.maximum(0.0, np.maximum.accumulate(sent_ns - order * front_ns))
    services = draws.services(rows, uniform[0::2])

    def ends_of(waking_ns: Values) -> Values:
        total = np.cumsum(services + waking_ns)
        return total + np.maximum.accumulate(queued - np.concatenate([[0.0], total[:-1]]))

    def waking_of(waking_ns: Values) -> Values:
        before = np.concatenate([[-np.inf], ends_of(waking_ns)[:-1]])
        return draws.waking(np.maximum(0.0, queued - before))

    waking = _settled(waking_of, np.zeros(count))
    if waking is None:
        return None
    ends = ends_of(waking)
    taken = np.maximum(queued, np.concatenate([[-np.inf], ends[:-1]]))
    if (order - np.searchsorted(taken, queued, "left")).max(initial=0) >= max_waiting:
        return None
    ended = np.searchsorted(ends, sent_ns, "right")  # batches that had ended when a request came
    front_free = np.concatenate([[0.0], queued[:-1]])

    def delays_of(delays_ns: Values) -> Values:
        seen = np.concatenate([[-np.inf], np.maximum.accumulate(ends + delays_ns)])
        idle = np.maximum(0.0, sent_ns - np.maximum(front_free, seen[ended]))
        return draws.delays(idle, uniform[1::2])

    delays = _settled(delays_of, np.zeros(count))
    if delays is None:
        return None
    return Outcome(
        sent_ns=sent_ns, taken_ns=taken, answered_ns=ends + delays, batches=np.ones(count, np.int64),
        batch_taken_ns=taken, batch_end_ns=ends, refused_ns=np.zeros(0), instances=1,
    )  # fmt: skip


def _settled(again: Callable[[Values], Values], values: Values) -> Values | None:
    """What comes again as it was."""
    for _ in range(_MOST_ROUNDS):
        before, values = values, again(values)
        if np.abs(values - before).max(initial=0.0) <= _NOTHING_NS:
            return values
    return None
