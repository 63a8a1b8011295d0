"""``spike``: independent arrivals at a base rate, and at another one for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate
from inferbench_tasks.arrivals.poisson import Poisson, poisson_times_ns
from inferbench_tasks.contracts.spec import Seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Spike(ArrivalProcess):
    """Poisson arrivals at ``base_rate_rps``, and at ``spike_rate_rps`` from ``spike_at_s`` for ``spike_for_s``.

    Times count from the start of the measurement; the warm-up is at the base rate.
    """

    kind: Literal["spike"]
    base_rate_rps: Rate
    """Rate outside the spike, requests per second."""
    spike_rate_rps: Rate
    """Rate in the spike, above the base rate."""
    spike_at_s: Annotated[float, Field(ge=0, le=86_400)]
    """When the spike begins."""
    spike_for_s: Seconds
    """How long it lasts."""
    stationary: ClassVar[bool] = False

    @model_validator(mode="after")
    def _rises(self) -> Spike:
        if self.spike_rate_rps <= self.base_rate_rps:
            raise ValueError(
                f"spike_rate_rps ({self.spike_rate_rps:g}) must be above base_rate_rps ({self.base_rate_rps:g})"
            )
        return self

    def _spike_s(self, duration_s: float) -> tuple[float, float]:
        return min(self.spike_at_s, duration_s), min(self.spike_at_s + self.spike_for_s, duration_s)

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        begin_s, end_s = self._spike_s(duration_s)
        parts = (
            poisson_times_ns(self.base_rate_rps, 0.0, begin_s, rng),
            poisson_times_ns(self.spike_rate_rps, begin_s, end_s, rng),
            poisson_times_ns(self.base_rate_rps, end_s, duration_s, rng),
        )
        return np.concatenate(parts)

    def mean_rate_rps(self, duration_s: float) -> float:
        begin_s, end_s = self._spike_s(duration_s)
        return (
            self.base_rate_rps + (self.spike_rate_rps - self.base_rate_rps) * (end_s - begin_s) / duration_s
        )

    def warmup(self) -> ArrivalProcess:
        return Poisson(kind="poisson", rate_rps=self.base_rate_rps)

    def check(self, duration_s: float) -> None:
        super().check(duration_s)
        if self.spike_at_s >= duration_s:
            raise ValueError(
                f"the spike begins at {self.spike_at_s:g} s, when the load of {duration_s:g} s is over; "
                "lower spike_at_s or raise duration_s"
            )
