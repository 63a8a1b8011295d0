"""``offline``: MLPerf's scenario of a batch job: all requests are there from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.closed_loop import ClosedLoop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Offline(ArrivalProcess):
    """``requests`` at once; its metric is the throughput until the last answer.

    The load ends with the last answer; its duration only bounds it.
    """

    kind: Literal["offline"]
    requests: Annotated[int, Field(ge=1, le=10_000_000)]
    """All requests of the load (MLPerf's rules ask for 24,576 samples at least)."""
    paced: ClassVar[bool] = False
    stationary: ClassVar[bool] = False

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        import numpy as np

        return np.zeros(self.requests, np.int64)

    def mean_rate_rps(self, duration_s: float) -> float:
        return self.requests / duration_s

    def warmup(self) -> ArrivalProcess:
        return ClosedLoop(kind="closed_loop", concurrency=1)
