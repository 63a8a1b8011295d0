"""``max_rate``: no rate is given; the highest one that keeps the objective is looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from inferbench_tasks.arrivals.base import ArrivalProcess, Rate
from inferbench_tasks.arrivals.poisson import Poisson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: From a start within a factor of eight of the answer: three doublings, and what halves a factor of two down to 5%,
#: with some probes that have to be repeated.
_USUAL_PROBES = 10
#: What is around a probe: its senders' start, the look at the machine, the judgement on its records.
AROUND_PROBE_S = 3.0


class MaxRate(ArrivalProcess):
    """The highest rate of a Poisson load that keeps the ``slo``, by bisection: each probe is a load of its own.

    ``load.duration_s`` and ``load.warmup_s`` are of one probe. It has no schedule of its own (``offsets_ns`` raises
    TypeError): ``probe`` is what each load sends.
    """

    kind: Literal["max_rate"]
    start_rate_rps: Rate = 100.0
    """The first rate that is tried, requests per second; from there it is doubled or halved until the answer lies
    between two. The nearer to the answer, the fewer probes."""
    resolution_ratio: Annotated[float, Field(ge=0.01, le=1)] = 0.05
    """The search ends where the lowest rate that broke the objective is so little above the highest that kept it."""
    limit_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """The most that all probes may take, s, with their warm-ups and the waits for a quiet machine; then the answer is
    the interval as it is."""

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        raise TypeError("max_rate looks for its rate; what each of its loads sends is its probe")

    def probe(self, rate_rps: float) -> Poisson:
        """The arrivals of the probe at that rate."""
        return Poisson(kind="poisson", rate_rps=rate_rps)

    def expected_s(self, probe_s: float) -> float:
        """How long the search is expected to take, where a probe takes ``probe_s`` with its warm-up."""
        return min(self.limit_s, _USUAL_PROBES * (probe_s + AROUND_PROBE_S))

    def least_s(self, probe_s: float) -> float:
        """The time for which a search can be asked: from one probe on each side of the answer it has one."""
        return 2 * (probe_s + AROUND_PROBE_S)
