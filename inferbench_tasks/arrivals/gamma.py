"""``gamma``: arrivals more bursty, or more even, than independent ones, by a coefficient of variation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Gamma(ArrivalProcess):
    """Independent gaps from a gamma law of mean ``1 / rate_rps`` and the given coefficient of variation.

    Shape 1 / cv^2; cv 1 is a Poisson process, above it comes in bursts, below it is more even.
    """

    kind: Literal["gamma"]
    rate_rps: Rate
    """Mean rate, requests per second."""
    cv: Annotated[float, Field(ge=0.01, le=20)]
    """Coefficient of variation of the gaps: their standard deviation over their mean."""

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        shape = 1 / self.cv**2
        scale_s = 1 / (self.rate_rps * shape)
        # The load begins somewhere in a gap, more likely in a long one (length-biased, then uniform in
        # it): only so the expected number is rate x duration, bursts or not.
        last_s = rng.gamma(shape + 1, scale_s) * rng.uniform()
        parts = [np.array([last_s])]
        while last_s < duration_s:
            missing = (duration_s - last_s) * self.rate_rps
            gaps = rng.gamma(shape, scale_s, int(missing + 4 * self.cv * missing**0.5) + 16)
            times = last_s + np.cumsum(gaps)
            parts.append(times)
            last_s = float(times[-1])
        times = np.concatenate(parts)
        return (times[times < duration_s] * 1e9).astype(np.int64)

    def mean_rate_rps(self, duration_s: float) -> float:
        return self.rate_rps
