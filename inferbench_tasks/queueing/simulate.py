"""The queue of our server, event by event: arrivals, ends of batches, ends of a batch's patience."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from inferbench_tasks.queueing.outcome import Outcome
from inferbench_tasks.queueing.server import Server


def open_loop(
    server: Server, offsets_ns: Iterable[float], rng: np.random.Generator, rows: int = 1
) -> Outcome:
    """Requests of ``rows`` rows that are sent at ``offsets_ns`` (ascending), until all are answered.

    ValueError where ``offsets_ns`` goes back, or the server would refuse every request.
    """
    run = _Run(server, rng, rows)
    last_ns = 0.0
    for offset_ns in offsets_ns:
        if offset_ns < last_ns:
            raise ValueError(f"offsets_ns goes back from {last_ns:g} to {offset_ns:g}")
        last_ns = float(offset_ns)
        run.arrivals.append(last_ns)
    run.finish()
    return run.outcome()


def closed_loop(
    server: Server, users: int, think_ns: float, duration_ns: float, rng: np.random.Generator, rows: int = 1
) -> Outcome:
    """``users`` who send at 0 and, ``think_ns`` after each answer, again; nobody sends from ``duration_ns`` on.

    Users who send at the same moment are in the queue together before an instance takes any of them. More
    users than the queue has places are a ValueError: it is not known when a user who was refused asks again.
    """
    if not 1 <= users <= server.max_waiting:
        raise ValueError(f"users is {users}; allowed is 1 to {server.max_waiting}, the places of the queue")
    if think_ns < 0 or duration_ns <= 0:
        raise ValueError(
            f"think_ns {think_ns:g} must not be negative, duration_ns {duration_ns:g} must be positive"
        )
    run = _Run(server, rng, rows, think_ns=think_ns, duration_ns=duration_ns)
    run.arrivals.extend([0.0] * users)
    run.finish()
    return run.outcome()


@dataclass(slots=True)
class _Run:
    server: Server
    rng: np.random.Generator
    rows: int
    think_ns: float | None = None  # None: nobody comes back
    duration_ns: float = float("inf")
    #: Of users who come back, a heap; of an open loop, ascending. A sorted list is a heap.
    arrivals: list[float] = field(default_factory=list)
    #: (when the front is done with it, when it was sent, how long the front was idle before), one after the other.
    entering: deque[tuple[float, float, float]] = field(default_factory=deque)
    front_free_ns: float = 0.0
    front_used_ns: float = float("-inf")  # by a request or an answer, last
    instance_used_ns: float = float("-inf")
    waiting: deque[int] = field(default_factory=deque)
    #: (end, when its last answer is there) of the batches in execution, a heap.
    ends: list[tuple[float, float]] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    taken: dict[int, float] = field(default_factory=dict)
    answered: dict[int, float] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    batch_taken: list[float] = field(default_factory=list)
    batch_end: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.check(self.rows)

    def finish(self) -> None:
        """Handle all that happens; what happens at one moment happens before anything is taken."""
        patience_ns = float("inf")
        while True:
            now_ns = min(
                self.arrivals[0] if self.arrivals else float("inf"),
                self.entering[0][0] if self.entering else float("inf"),
                self.ends[0][0] if self.ends else float("inf"),
                patience_ns,
            )
            if now_ns == float("inf"):
                return
            while self.ends and self.ends[0][0] <= now_ns:
                self.instance_used_ns, answered_ns = heapq.heappop(self.ends)
                self.front_used_ns = max(self.front_used_ns, answered_ns)
            while self.arrivals and self.arrivals[0] <= now_ns:
                self._arrive(heapq.heappop(self.arrivals))
            while self.entering and self.entering[0][0] <= now_ns:
                self._enter(*self.entering.popleft())
            patience_ns = self._take(now_ns)

    def _arrive(self, sent_ns: float) -> None:
        idle_ns = max(0.0, sent_ns - max(self.front_used_ns, self.front_free_ns))
        self.front_free_ns = max(sent_ns, self.front_free_ns) + self.server.front_ns
        self.front_used_ns = max(sent_ns, self.front_used_ns)
        self.entering.append((self.front_free_ns, sent_ns, idle_ns))

    def _enter(self, queued_ns: float, sent_ns: float, idle_ns: float) -> None:
        if len(self.waiting) >= self.server.max_waiting:
            self.refused.append(sent_ns)
            return
        self.waiting.append(len(self.sent))
        self.sent.append(sent_ns)
        self.queued.append(queued_ns)
        self.idle.append(idle_ns)

    def _take(self, now_ns: float) -> float:
        """Let free instances take what they may; when the oldest request's patience ends, infinity if no one asks."""
        while self.waiting and len(self.ends) < self.server.instances:
            count, at_once = self.server.batcher.takes(len(self.waiting), self.rows)
            due_ns = self.queued[self.waiting[0]] + self.server.batcher.delay_ns
            if not at_once and now_ns < due_ns:
                return due_ns
            self._execute([self.waiting.popleft() for _ in range(count)], now_ns)
        return float("inf")

    def _execute(self, batch: list[int], now_ns: float) -> None:
        idle_ns = 0.0 if self.ends else now_ns - self.instance_used_ns
        end_ns = now_ns + self.server.busy_ns(len(batch) * self.rows, idle_ns, self.rng)
        self.batches.append(len(batch))
        self.batch_taken.append(now_ns)
        self.batch_end.append(end_ns)
        for request in batch:
            self.taken[request] = now_ns
            self.answered[request] = end_ns + self.server.delay_ns(self.idle[request], self.rng)
            again_ns = self.answered[request] + (self.think_ns or 0.0)
            if self.think_ns is not None and again_ns < self.duration_ns:
                heapq.heappush(self.arrivals, again_ns)
        heapq.heappush(self.ends, (end_ns, max(self.answered[request] for request in batch)))

    def outcome(self) -> Outcome:
        order = range(len(self.sent))
        return Outcome(
            sent_ns=np.array(self.sent, dtype=np.float64),
            taken_ns=np.array([self.taken[at] for at in order], dtype=np.float64),
            answered_ns=np.array([self.answered[at] for at in order], dtype=np.float64),
            batches=np.array(self.batches, dtype=np.int64),
            batch_taken_ns=np.array(self.batch_taken, dtype=np.float64),
            batch_end_ns=np.array(self.batch_end, dtype=np.float64),
            refused_ns=np.array(self.refused, dtype=np.float64),
            instances=self.server.instances,
        )
