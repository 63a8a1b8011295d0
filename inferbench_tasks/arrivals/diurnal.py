"""``diurnal``: independent arrivals whose rate swings as between day and night."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate
from inferbench_tasks.arrivals.poisson import Poisson, poisson_times_ns
from inferbench_tasks.contracts.spec import Seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Diurnal(ArrivalProcess):
    """Poisson arrivals at the rate ``rate_rps (1 + amplitude_ratio sin(2 pi (t / period_s + phase_ratio)))``."""

    kind: Literal["diurnal"]
    rate_rps: Rate
    """Mean rate over a whole period, requests per second."""
    amplitude_ratio: Annotated[float, Field(gt=0, le=1)]
    """How far the rate swings up and down, as a share of the mean; 1 reaches down to zero."""
    period_s: Seconds
    """A whole day and night: 86400, or less to compress it."""
    phase_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Where the measurement begins: 0 on the rise, 0.25 at the top, 0.5 on the fall, 0.75 at the bottom."""
    stationary: ClassVar[bool] = False

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        # Thinning (Lewis and Shedler, 1979): from a process at the highest rate, each arrival is kept
        # with the probability rate(t) / highest rate.
        times = poisson_times_ns(self.rate_rps * (1 + self.amplitude_ratio), 0.0, duration_s, rng)
        angle = 2 * np.pi * (times / 1e9 / self.period_s + self.phase_ratio)
        share = (1 + self.amplitude_ratio * np.sin(angle)) / (1 + self.amplitude_ratio)
        return times[rng.uniform(size=len(times)) < share]

    def mean_rate_rps(self, duration_s: float) -> float:
        first = 2 * math.pi * self.phase_ratio
        last = first + 2 * math.pi * duration_s / self.period_s
        swing = (math.cos(first) - math.cos(last)) / (last - first)
        return self.rate_rps * (1 + self.amplitude_ratio * swing)

    def warmup(self) -> ArrivalProcess:
        share = 1 + self.amplitude_ratio * math.sin(2 * math.pi * self.phase_ratio)
        # At the bottom of a full swing the rate is zero, which warms nothing up.
        return Poisson(kind="poisson", rate_rps=self.rate_rps * max(share, 0.1))
