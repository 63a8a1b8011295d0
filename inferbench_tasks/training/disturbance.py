"""What else happened on the machine while steps were measured: the ledger of ``metrics.interference``, for ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.metrics.interference import (
    FOREIGN_WARN_RATIO,
    STEAL_QUARANTINE_RATIO,
    STEAL_WARN_RATIO,
    WAITED_QUARANTINE_RATIO,
    WAITED_WARN_RATIO,
)
from inferbench_tasks.monitors.records import Recording

#: Monitors that a training needs.
MONITORS = ("host", "server", "client", "wait")


def ledger(recording: Recording, window_ns: tuple[int, int], cores: int) -> dict[str, Any]:
    """``{findings, not_watched, watched, mode}`` of a window, by the thresholds of serving runs.

    ``cores``: of the machine. Foreign is what neither the training's processes nor InferBench's own used. That ranks
    wait for each other is their own doing: waits count while foreign processes use the CPU.
    """
    start_ns, end_ns = window_ns
    duration_s = (end_ns - start_ns) / 1e9
    findings: list[dict[str, Any]] = []
    missing: list[str] = []

    def grown(source: str, metric: str) -> float | None:
        series = recording.get(source, metric)
        return series.increase(start_ns, end_ns) if series else None

    def add(kind: str, value: float, warn: float, quarantine: float | None, text: str) -> None:
        if value >= warn:
            grave = quarantine is not None and value >= quarantine
            bound = quarantine if grave else warn
            findings.append({"kind": kind, "value": value, "bound": bound, "quarantine": grave, "text": text})

    steal_s, busy_s = grown("host", "cpu_steal_s_total"), grown("host", "cpu_busy_s_total")
    if steal_s is None:
        missing.append("steal")
    else:
        ratio = steal_s / duration_s / cores
        text = f"the hypervisor took {ratio:.1%} of the machine's CPU time (at most {STEAL_QUARANTINE_RATIO:.0%})"
        add("steal", ratio, STEAL_WARN_RATIO, STEAL_QUARANTINE_RATIO, text)
    own_s, client_s = grown("server", "cpu_s_total"), grown("client", "cpu_s_total")
    if busy_s is None or own_s is None or client_s is None:
        missing.append("foreign CPU")
    else:
        foreign = max(0.0, busy_s - own_s - client_s) / duration_s
        text = f"processes that are not the training's used {foreign:.2f} of {cores} cores ({foreign / cores:.0%})"
        add("foreign_cpu", foreign / cores, FOREIGN_WARN_RATIO, None, text)
        waited_s = grown("server", "waited_s_total")
        if waited_s is None:
            missing.append("waiting for a core")
        elif foreign / cores >= FOREIGN_WARN_RATIO and waited_s + own_s > 0:
            share = waited_s / (waited_s + own_s)
            text = (
                f"the training's processes waited for a core in {share:.0%} of the time in which they had work to do "
                f"(at most {WAITED_QUARANTINE_RATIO:.0%}) while others used {foreign:.2f} of {cores} cores"
            )
            add("waited_for_cpu", share, WAITED_WARN_RATIO, WAITED_QUARANTINE_RATIO, text)
    findings.sort(key=lambda finding: not finding["quarantine"])
    return {
        "findings": findings,
        "not_watched": missing,
        "watched": busy_s is not None,
        "mode": os.environ.get(MODE) or None,
    }


def window_of(epochs: Sequence[tuple[int | None, int | None]]) -> tuple[int, int] | None:
    """From the first measured step to the last of all ranks and epochs, ns; None without measured steps."""
    starts = [start for start, _ in epochs if start is not None]
    ends = [end for _, end in epochs if end is not None]
    return (min(starts), max(ends)) if starts and ends else None
