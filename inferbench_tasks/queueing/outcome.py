"""What became of a simulated load, request by request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times of the answered requests in the order in which they were sent, ns after the load's start.

    ``taken_ns``: when an instance took it. ``answered_ns``: when its answer was there. ``batches``: requests in each
    executed batch, in the order in which they were taken. ``busy_ns``: of all instances together.
    """

    sent_ns: NDArray[np.float64]
    taken_ns: NDArray[np.float64]
    answered_ns: NDArray[np.float64]
    batches: NDArray[np.int64]
    refused: int
    busy_ns: float
    instances: int

    @property
    def latencies_ns(self) -> NDArray[np.float64]:
        """From sent to answered."""
        return self.answered_ns - self.sent_ns

    @property
    def waits_ns(self) -> NDArray[np.float64]:
        """In the front and the queue."""
        return self.taken_ns - self.sent_ns

    def utilisation(self) -> float:
        """Share of the instances' time, from 0 to the last answer, in which they were busy; 0 without requests."""
        return (
            self.busy_ns / (self.instances * float(self.answered_ns.max())) if len(self.answered_ns) else 0.0
        )
