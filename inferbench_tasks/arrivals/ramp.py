"""``ramp``: independent arrivals at a rate that rises, or falls, steadily over the load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.poisson import Poisson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RateOrZero = Annotated[float, Field(ge=0, le=10_000_000)]


class Ramp(ArrivalProcess):
    """Poisson arrivals at a rate that goes from ``start_rate_rps`` to ``end_rate_rps`` in a straight line."""

    kind: Literal["ramp"]
    start_rate_rps: _RateOrZero
    """Rate at the start of the measurement, requests per second."""
    end_rate_rps: _RateOrZero
    """Rate at its end."""
    stationary: ClassVar[bool] = False

    @model_validator(mode="after")
    def _ramps(self) -> Ramp:
        if self.start_rate_rps == self.end_rate_rps:
            raise ValueError(
                f"start_rate_rps and end_rate_rps are both {self.start_rate_rps:g}; "
                "a steady rate is kind: poisson"
            )
        return self

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        # Given their number, the arrivals are independent with the density rate(t) / integral of the rate;
        # its distribution function is quadratic and is inverted exactly.
        start, end = self.start_rate_rps, self.end_rate_rps
        count = rng.poisson((start + end) / 2 * duration_s)
        uniform = np.sort(rng.uniform(size=count))
        root = np.sqrt(start**2 + uniform * (end**2 - start**2))
        times_s = duration_s * (root - start) / (end - start)
        return np.clip(times_s * 1e9, 0, np.nextafter(duration_s * 1e9, 0)).astype(np.int64)

    def mean_rate_rps(self, duration_s: float) -> float:
        return (self.start_rate_rps + self.end_rate_rps) / 2

    def warmup(self) -> ArrivalProcess:
        # A ramp from nothing is warmed up with a tenth of its end: cold parts must be met before it.
        return Poisson(kind="poisson", rate_rps=self.start_rate_rps or self.end_rate_rps / 10)
