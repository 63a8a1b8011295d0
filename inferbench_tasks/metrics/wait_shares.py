"""How much of the reported latencies is waits for a core that others caused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.loadgen.evidence import beside
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.wait_bounds import WAIT_MS, WAIT_RATIO, WAIT_TYPICAL_MS
from inferbench_tasks.metrics.waiting import Waits

#: The reported percentiles that are judged. Beyond them a single time slice of another process decides.
JUDGED = (0.50, 0.95, 0.99)


@dataclass(frozen=True)
class WaitShare:
    """``wait_ms`` of what ``name`` reports, ``latency_ms``, were waits. ``least_ms``: so much always may be."""

    name: str
    text: str
    wait_ms: float
    latency_ms: float
    least_ms: float

    @property
    def bound_ms(self) -> float:
        """From here on the wait is too much of the latency."""
        return max(self.least_ms, WAIT_RATIO * self.latency_ms)

    def __str__(self) -> str:
        wait, bound = beside(self.wait_ms, self.bound_ms, 1)
        return (
            f"server or sender waited {wait} ms {self.text}, and the {self.name} is {self.latency_ms:.1f} ms "
            f"(at most {bound} ms of it)"
        )


def wait_shares(waits: Waits, window: Window) -> Iterator[WaitShare]:
    """Those of the judged percentiles and of the mean; none of a window without answers."""
    answered = window.answered
    sent_ns, done_ns = window.intended_ns[answered], window.done_ns[answered]
    if not len(sent_ns):
        return
    latencies_ms = (done_ns - sent_ns) / 1e6
    of_all = window.measured
    # Of what got no answer it is not known how long it lived: its sending counts.
    ended_ns = np.where(window.ok, window.done_ns, window.intended_ns)[of_all]
    met_s = waits.met_s(window.intended_ns[of_all], tuple(round(1 - q, 9) for q in JUDGED), ended_ns)
    for q, wait_s in zip(JUDGED, met_s, strict=True):
        text = f"or more for a core behind other processes while {1 - q:.0%} of the requests"
        least_ms = WAIT_TYPICAL_MS if q == 0.5 else WAIT_MS
        latency_ms = float(np.quantile(latencies_ms, q))
        yield WaitShare(f"p{100 * q:g}", f"{text} were under way", wait_s * 1e3, latency_ms, least_ms)
    # Many waits that are a little too short for every percentile; without what is too rare for one.
    common = latencies_ms <= np.quantile(latencies_ms, JUDGED[-1])
    mean_ms = float(waits.within_s(sent_ns[common], done_ns[common]).mean()) * 1e3
    text = "for a core behind other processes while a request was under way"
    yield WaitShare("mean", text, mean_ms, float(latencies_ms[common].mean()), WAIT_TYPICAL_MS)
