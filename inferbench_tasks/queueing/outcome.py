"""What became of a simulated load, request by request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times of the answered requests in the order in which they were sent, ns after the load's start.

    ``taken_ns``: when an instance took it. ``answered_ns``: when its answer was there. ``batches``: requests in each
    executed batch, in the order in which they were taken; ``batch_taken_ns``, ``batch_end_ns``: when it was taken and
    when its instance was free again. ``refused_ns``: when those were sent that found the queue full.
    """

    sent_ns: NDArray[np.float64]
    taken_ns: NDArray[np.float64]
    answered_ns: NDArray[np.float64]
    batches: NDArray[np.int64]
    batch_taken_ns: NDArray[np.float64]
    batch_end_ns: NDArray[np.float64]
    refused_ns: NDArray[np.float64]
    instances: int

    @property
    def refused(self) -> int:
        return len(self.refused_ns)

    @property
    def busy_ns(self) -> float:
        """Of all instances together."""
        return float((self.batch_end_ns - self.batch_taken_ns).sum())

    @property
    def latencies_ns(self) -> NDArray[np.float64]:
        """From sent to answered."""
        return self.answered_ns - self.sent_ns

    @property
    def waits_ns(self) -> NDArray[np.float64]:
        """In the front and the queue."""
        return self.taken_ns - self.sent_ns

    def utilisation(self, begin_ns: float = 0.0, end_ns: float | None = None) -> float:
        """Share of the instances' time in which they were busy, from ``begin_ns`` to ``end_ns`` (None: the last
        answer); 0 of no time."""
        if end_ns is None:
            end_ns = float(self.answered_ns.max(initial=0.0))
        if end_ns <= begin_ns:
            return 0.0
        within = np.clip(self.batch_end_ns, begin_ns, end_ns) - np.clip(self.batch_taken_ns, begin_ns, end_ns)
        return float(within.sum()) / (self.instances * (end_ns - begin_ns))
