"""A server of ours as its queue sees it: instances, batching, how long a batch takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.queueing.vectorised import Draws

#: How long an instance is busy with a batch of that many rows, ns. The generator makes it random where it is.
Service = Callable[[int, np.random.Generator], float]
#: What one request takes beside the queues and the instance, ns, where it finds the event loop idle for so many ns.
Delay = Callable[[float, np.random.Generator], float]

#: As ``servers.scheduler.MAX_WAITING``: with that many waiting, a request is refused.
MAX_WAITING = 8192


@dataclass(frozen=True, slots=True)
class Batcher:
    """How ``servers.scheduler`` joins requests; ``max_rows`` 0: every request is executed by itself.

    ``preferred``: sizes in rows at which a batch goes at once; ``max_rows`` is always one of them, larger ones are
    ignored. ``delay_ns``: how long the oldest request waits for others.
    """

    max_rows: int = 0
    delay_ns: int = 0
    preferred: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_rows < 0 or self.delay_ns < 0:
            raise ValueError(f"max_rows {self.max_rows} and delay_ns {self.delay_ns} must not be negative")

    def takes(self, waiting: int, rows: int) -> tuple[int, bool]:
        """How many of ``waiting`` >= 1 requests of ``rows`` rows each go together, and whether they go at once.

        Where they don't, they go when the oldest has waited ``delay_ns``, with those that wait by then.
        """
        if not self.max_rows:
            return 1, True
        fit = self.max_rows // rows
        sizes = {*self.preferred, self.max_rows}
        # The largest preferred size that the requests reach exactly; none may be reached with rows > 1.
        best = max((count for count in range(1, min(waiting, fit) + 1) if count * rows in sizes), default=0)
        if best:
            return best, True
        return min(waiting, fit), waiting > fit


@dataclass(frozen=True, slots=True)
class Server:
    """``instances`` that take from one queue, behind a front that takes one request after the other.

    ``service``: of a batch, what the server adds per batch included. ``front_ns``: how long the server's event loop is
    busy with a request before it is in the queue, so that it is a queue by itself; what it does with the answer is
    counted here too. ``request_ns``: what else is added to each request; a pure delay, or what draws one by how long
    the event loop had nothing to do before it. ``batch_idle_ns``: what a batch takes longer where no instance had
    anything to do for so many ns; what sleeps has to be woken, and finds its caches cold.
    ``draws``: the same for many requests at once, where it is known; results are the same, and come many times faster.
    ``mean_service_ns``: the exact mean of ``service``, of so many rows, where it is known.
    Instances do not slow each other or the front down: ``service`` has to be that with all of them busy.
    """

    service: Service
    instances: int = 1
    batcher: Batcher = Batcher()
    request_ns: float | Delay = 0.0
    front_ns: float = 0.0
    batch_idle_ns: Callable[[float], float] | None = None
    max_waiting: int = MAX_WAITING
    mean_service_ns: Callable[[int], float] | None = None
    draws: Draws | None = None

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise ValueError(f"instances is {self.instances}; a server has at least one")
        if self.max_waiting < 1:
            raise ValueError(f"max_waiting is {self.max_waiting}; a queue has at least one place")
        if self.front_ns < 0:
            raise ValueError(f"front_ns {self.front_ns:g} must not be negative")

    def delay_ns(self, idle_ns: float, rng: np.random.Generator) -> float:
        """``request_ns`` of one request that finds the event loop idle for so long."""
        return self.request_ns(idle_ns, rng) if callable(self.request_ns) else self.request_ns

    def busy_ns(self, rows: int, idle_ns: float, rng: np.random.Generator) -> float:
        """How long a batch of so many rows takes where no instance was busy for so long."""
        return self.service(rows, rng) + (self.batch_idle_ns(idle_ns) if self.batch_idle_ns else 0.0)

    def check(self, rows: int) -> None:
        """ValueError where requests of that many rows would all be refused."""
        if rows < 1:
            raise ValueError(f"requests have {rows} rows; at least one is needed")
        if self.batcher.max_rows and rows > self.batcher.max_rows:
            raise ValueError(
                f"requests have {rows} rows, max_batch_size is {self.batcher.max_rows}: the server refuses them all"
            )

    def capacity_rps(self, rows: int, rng: np.random.Generator, draws: int = 1000) -> float:
        """Requests per second with queues that are never empty: the rate from which on one of them only grows.

        ``draws``: over how many service times their mean is taken where ``mean_service_ns`` is not known.
        """
        self.check(rows)
        fit = self.batcher.max_rows // rows if self.batcher.max_rows else 1
        count, _ = self.batcher.takes(fit + 1, rows)
        if self.mean_service_ns:
            mean_ns = self.mean_service_ns(count * rows)
        else:
            mean_ns = sum(self.service(count * rows, rng) for _ in range(draws)) / draws
        instances_rps = self.instances * count / mean_ns * 1e9
        return min(instances_rps, 1e9 / self.front_ns) if self.front_ns else instances_rps
