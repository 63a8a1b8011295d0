"""What of a reading of a whole machine may be another's than the run's: what others used, and cores that it had not.

A reading is idle power and what busy cores draw beside it. Of the busy part others have about their share of the CPU
time (which part of it was whose is known, what a second of each drew is not); of the idle part at most the cores that
the job did not have. So as the run's own the reading is too much by at most about the larger of both shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inferbench_tasks.metrics.base import Measured

#: With more than this share of the CPU time that was used others', a reading is none of the run: theirs is another in
#: each run, so that it makes the difference between two.
OTHERS_RATIO = 0.05
#: By so much of what was used ticks of 10 ms may be wrong. Beyond that they are right against the kernel's count of
#: what others used in ns, in which cgroups of version 2 have neither the kernel's own work nor the outermost cgroup's.
TICKS_RATIO = 0.15


@dataclass(frozen=True)
class WholeMachine:
    """``cores``: that the job had of the machine's ``of_cores``, None where nobody knows. ``others_ratio``: of the CPU
    time that was used on all of these in the window, the share of what was neither the server, nor before it, nor the
    load; None where it was not recorded.
    """

    cores: float | None
    of_cores: int | None
    others_ratio: float | None

    @property
    def reason(self) -> str | None:
        """Why a reading of the machine is none of the run; None where it may stand for it."""
        if self.others_ratio is None:
            return "it counts the whole machine, and what others used of it was not recorded"
        if self.others_ratio > OTHERS_RATIO:
            return (
                f"it counts the whole machine, and {self.others_ratio:.1%} of the CPU time that was used was others' "
                f"(at most {OTHERS_RATIO:.0%}): what of it is this run's is not known"
            )
        return None

    @property
    def too_much_ratio(self) -> float:
        """By which share a reading is too much at most, as the run's own."""
        idle = 1 - self.cores / self.of_cores if self.cores and self.of_cores else 0.0
        return max(0.0, idle, self.others_ratio or 0.0)

    @property
    def words(self) -> str:
        """Of whom a reading is that stands for the run; "" where all of it was the run's."""
        parts = []
        if self.cores and self.of_cores and self.cores < self.of_cores:
            parts.append(f"the run had {self.cores:g} of the {self.of_cores} cores whose idle power is in it")
        if self.others_ratio and self.others_ratio >= 0.005:
            parts.append(f"{self.others_ratio:.0%} of the CPU time was others'")
        return ", ".join(parts)

    def stored(self) -> dict[str, Any]:
        """As plain values."""
        return {"cores": self.cores, "of_cores": self.of_cores, "others_ratio": self.others_ratio}


def whole_machine(measured: Measured) -> WholeMachine:
    """Of the window; of a load from another host that of the server's."""
    had = measured.granted_cores
    return WholeMachine(
        None if had is None else had + measured.balancer_own_cores,
        measured.hardware.get("cores_logical"),
        _others_ratio(measured),
    )


def _others_ratio(measured: Measured) -> float | None:
    def grown(source: str, metric: str) -> float | None:
        series = measured.recording.get(source, metric)
        return series.increase(measured.window.start_ns, measured.window.end_ns) if series else None

    tested = [grown("server", "cpu_s_total"), grown("client", "cpu_s_total")]
    if measured.balancer_cores:
        tested.append(grown("balancer", "cpu_s_total"))
    known = [used_s for used_s in tested if used_s is not None]
    if len(known) < len(tested):
        return None
    own_s, busy_s = sum(known), grown("host", "cpu_busy_s_total")
    # Counted in ns where the kernel does that; what the machine was busy is counted in ticks of 10 ms.
    exact_s = grown("wait", "foreign_s_total")
    ticks_s = None if busy_s is None else max(0.0, busy_s - own_s)
    others_s = ticks_s if exact_s is None else exact_s
    if exact_s is not None and ticks_s is not None and busy_s and ticks_s - exact_s > TICKS_RATIO * busy_s:
        others_s = ticks_s
    if others_s is None:
        return None
    return others_s / (own_s + others_s) if own_s + others_s > 0 else None
