"""``server``: MLPerf's scenario of independent clients: Poisson arrivals at a target rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate
from inferbench_tasks.arrivals.poisson import poisson_times_ns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Server(ArrivalProcess):
    """Exponential gaps of mean ``1 / rate_rps``; its metric is the highest rate that keeps the latency bound."""

    kind: Literal["server"]
    rate_rps: Rate
    """Queries per second (MLPerf's target QPS)."""

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        return poisson_times_ns(self.rate_rps, 0.0, duration_s, rng)

    def mean_rate_rps(self, duration_s: float) -> float:
        return self.rate_rps
