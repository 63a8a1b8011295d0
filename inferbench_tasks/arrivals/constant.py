"""``constant``: one request every ``1 / rate_rps`` seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Constant(ArrivalProcess):
    """Equal gaps, the first request at once; coefficient of variation 0."""

    kind: Literal["constant"]
    rate_rps: Rate
    """Requests per second."""

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        count = int(np.ceil(duration_s * self.rate_rps - 1e-9))
        return (np.arange(count) * (1e9 / self.rate_rps)).astype(np.int64)

    def mean_rate_rps(self, duration_s: float) -> float:
        return self.rate_rps
