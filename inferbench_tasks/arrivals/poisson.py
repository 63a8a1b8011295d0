"""``poisson``: independent arrivals at a mean rate, as from many users who don't know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Poisson(ArrivalProcess):
    """Exponential gaps of mean ``1 / rate_rps``; coefficient of variation 1."""

    kind: Literal["poisson"]
    rate_rps: Rate
    """Mean rate, requests per second."""

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        return poisson_times_ns(self.rate_rps, 0.0, duration_s, rng)

    def mean_rate_rps(self, duration_s: float) -> float:
        return self.rate_rps


def poisson_times_ns(
    rate_rps: float, start_s: float, end_s: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Arrivals of a Poisson process in [start_s, end_s), ns, ascending."""
    import numpy as np

    # Given their number, a Poisson process's arrivals are uniform order statistics.
    count = rng.poisson(rate_rps * (end_s - start_s))
    return np.sort(rng.uniform(start_s * 1e9, end_s * 1e9, count)).astype(np.int64)
