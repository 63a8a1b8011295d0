"""The queue of our server, from one moment to the next at which a batch may go."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable
from operator import neg

import numpy as np

from inferbench_tasks.queueing.outcome import Outcome
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.queueing.tolerance import Tolerance
from inferbench_tasks.queueing.vectorised import one_by_one


def open_loop(
    server: Server,
    offsets_ns: Iterable[float],
    rng: np.random.Generator,
    rows: int = 1,
    tolerance: Tolerance | None = None,
) -> Outcome:
    """Requests of ``rows`` rows that are sent at ``offsets_ns`` (ascending), until all are answered, or more took too
    long than ``tolerance`` allows: of those that were answered by then (or of all: it saves time where it can).

    ValueError where ``offsets_ns`` goes back, or the server would refuse every request.
    """
    server.check(rows)
    sent_ns = [float(offset_ns) for offset_ns in offsets_ns]
    for before, after in zip([0.0, *sent_ns], sent_ns, strict=False):
        if after < before:
            raise ValueError(f"offsets_ns goes back from {before:g} to {after:g}")
    if server.draws is not None and server.instances == 1 and not server.batcher.max_rows:
        state = rng.bit_generator.state
        sent, waiting = np.array(sent_ns, np.float64), server.max_waiting
        outcome = one_by_one(server.draws, sent, server.front_ns, waiting, rows, rng)
        if outcome is not None:
            return outcome
        rng.bit_generator.state = state
    sent_ns.reverse()
    return _run(server, sent_ns, rng, rows, tolerance=tolerance)


def closed_loop(
    server: Server, users: int, think_ns: float, duration_ns: float, rng: np.random.Generator, rows: int = 1
) -> Outcome:
    """``users`` who send at 0 and, ``think_ns`` after each answer, again; nobody sends from ``duration_ns`` on.

    ValueError where the server would refuse every request.

    Users who send at the same moment are in the queue together before an instance takes any of them. More
    users than the queue has places are a ValueError: it is not known when a user who was refused asks again.
    """
    if not 1 <= users <= server.max_waiting:
        raise ValueError(f"users is {users}; allowed is 1 to {server.max_waiting}, the places of the queue")
    if think_ns < 0 or duration_ns <= 0:
        raise ValueError(
            f"think_ns {think_ns:g} must not be negative, duration_ns {duration_ns:g} must be positive"
        )
    server.check(rows)
    return _run(server, [0.0] * users, rng, rows, think_ns=think_ns, duration_ns=duration_ns)


def _run(
    server: Server,
    upcoming: list[float],
    rng: np.random.Generator,
    rows: int,
    *,
    think_ns: float | None = None,
    duration_ns: float = float("inf"),
    tolerance: Tolerance | None = None,
) -> Outcome:
    """``upcoming``: when requests are sent, the last one first; ``think_ns`` None: nobody comes back.

    One function with names of its own: it is called for millions of requests, and half of their time was the look-up of
    attributes. Requests are taken in the order in which they came, so all that is known of them are lists in that
    order. What happens at one moment happens before anything is taken.
    """
    service, front_ns, instances, max_waiting = (
        server.busy_ns,
        server.front_ns,
        server.instances,
        server.max_waiting,
    )
    delay_of, batcher = server.delay_ns, server.batcher
    # How many go of 1, 2 ... that wait; of more than fit as many as of one more.
    fit = batcher.max_rows // rows if batcher.max_rows else 0
    going = [batcher.takes(count, rows) for count in range(1, fit + 2)]
    sent: list[float] = []
    queued: list[float] = []
    idle: list[float] = []
    taken: list[float] = []
    answered: list[float] = []
    batches: list[int] = []
    batch_taken: list[float] = []
    batch_end: list[float] = []
    refused: list[float] = []
    ends: list[float] = []  # of the batches in execution, a heap
    seen: list[
        tuple[float, float]
    ] = []  # (end, its last answer) of batches the front has not seen yet, a heap
    now_ns, instance_used_ns = 0.0, float("-inf")
    front_free_ns, answer_ns = 0.0, float("-inf")
    while True:
        while ends and ends[0] <= now_ns:
            instance_used_ns = heapq.heappop(ends)
        while upcoming:
            sent_ns = upcoming[-1]
            used_ns = front_free_ns
            entry_ns = (sent_ns if sent_ns > used_ns else used_ns) + front_ns
            if entry_ns > now_ns:
                break
            upcoming.pop()
            while seen and seen[0][0] <= sent_ns:
                answer_ns = max(answer_ns, heapq.heappop(seen)[1])
            if len(sent) - len(taken) < max_waiting:
                sent.append(sent_ns)
                queued.append(entry_ns)
                used_ns = answer_ns if answer_ns > used_ns else used_ns
                idle.append(sent_ns - used_ns if sent_ns > used_ns else 0.0)
            else:
                refused.append(sent_ns)
            front_free_ns = entry_ns
        first, due_ns = len(taken), float("inf")
        while first < len(sent) and len(ends) < instances:
            count, at_once = going[min(len(sent) - first - 1, fit)]
            if not at_once and now_ns < (due_ns := queued[first] + batcher.delay_ns):
                break
            end_ns = now_ns + service(count * rows, 0.0 if ends else now_ns - instance_used_ns, rng)
            last_ns = 0.0
            for request in range(first, first + count):
                answered_ns = end_ns + delay_of(idle[request], rng)
                last_ns = answered_ns if answered_ns > last_ns else last_ns
                answered.append(answered_ns)
                taken.append(now_ns)
                if tolerance is not None and answered_ns - sent[request] > tolerance.least_ns:
                    tolerance.count(sent[request], answered_ns - sent[request])
                if think_ns is not None and (again_ns := answered_ns + think_ns) < duration_ns:
                    insort(upcoming, again_ns, key=neg)
            batches.append(count)
            batch_taken.append(now_ns)
            batch_end.append(end_ns)
            heapq.heappush(ends, end_ns)
            heapq.heappush(seen, (end_ns, last_ns))
            first, due_ns = first + count, float("inf")
        if tolerance is not None and tolerance.exceeded:
            break
        if first < len(sent) and len(ends) >= instances:
            now_ns = ends[0]
        else:
            next_ns = max(upcoming[-1], front_free_ns) + front_ns if upcoming else float("inf")
            now_ns = min(due_ns, next_ns)
            if now_ns == float("inf"):
                break
    return Outcome(
        sent_ns=np.array(sent[: len(taken)], dtype=np.float64),
        taken_ns=np.array(taken, dtype=np.float64),
        answered_ns=np.array(answered, dtype=np.float64),
        batches=np.array(batches, dtype=np.int64),
        batch_taken_ns=np.array(batch_taken, dtype=np.float64),
        batch_end_ns=np.array(batch_end, dtype=np.float64),
        refused_ns=np.array(refused, dtype=np.float64),
        instances=instances,
    )
