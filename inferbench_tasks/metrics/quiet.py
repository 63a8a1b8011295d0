"""What the load's percentiles are in the quiet windows of a run, beside those of the whole."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.loadgen.segmented import distribution
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES, failures_reason
from inferbench_tasks.metrics.base import Block, Measured
from inferbench_tasks.metrics.disturbances import disturbances
from inferbench_tasks.metrics.quiet_windows import quiet_windows

#: Less than this share of the time says nothing of the rest: what is left then are the gaps between disturbances.
LEAST_TIME_RATIO = 0.2
#: Findings of the ledger that the windows are cut by; what others are of can't be told in time.
_IN_TIME = frozenset({"steal", "foreign_cpu", "waited_for_cpu", "foreign_wait"})


class Quiet(Block):
    """Percentiles of the requests that met no disturbance and nothing that one left behind."""

    unit: ClassVar[str] = "-"
    formula: ClassVar[str] = (
        "percentiles of requests meant to leave while no wait for a core, steal, foreign CPU, memory pressure or "
        "interrupt storm was recorded, and no backlog of one was left"
    )
    path: ClassVar[str] = "quiet"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{time_ratio, request_ratio, windows, longest_s, cut_s, latency_ms, reason}.

        ``time_ratio``, ``request_ratio``: how much of the window and of its requests is kept. ``cut_s``: seconds by
        cause. ``latency_ms``: percentiles with ``ci95``, ``counts`` and ``reasons``; None with a ``reason`` where
        nobody watched, where too little is left, or where something disturbed that can't be told in time.
        """
        window = measured.window
        block: dict[str, Any] = {
            "time_ratio": None, "request_ratio": None, "windows": None, "longest_s": None, "cut_s": {},
            "latency_ms": None, "reason": None,
        }  # fmt: skip
        if measured.client is not None:
            text = "the load came from another host: when either was disturbed is known on two clocks, and not cut"
            return block | {"reason": text}
        if measured.hosts:
            text = "the replicas were on several hosts: when each was disturbed is known on its own clock, and not cut"
            return block | {"reason": text}
        cores = measured.hardware.get("cores_logical") or 1
        allowed = len(measured.hardware.get("cores_allowed") or ())
        disturbed = disturbances(
            measured.recording, window.start_ns, window.end_ns, None if 0 < allowed < cores else cores
        )
        if disturbed is None:
            return block | {"reason": "the waits for a core were not recorded over the whole of the window"}
        quiet = quiet_windows(window, disturbed)
        kept = quiet.holds(window)
        requests = int(window.measured.sum())
        time_ratio = quiet.time_s(window) / window.duration_s
        block |= {
            "time_ratio": time_ratio,
            "request_ratio": int(kept.sum()) / requests if requests else None,
            "windows": len(quiet.start_ns),
            "longest_s": quiet.longest_s(window),
            "cut_s": quiet.cut_s,
        }
        if reason := _elsewhere(measured.summary):
            return block | {"reason": reason}
        if time_ratio < LEAST_TIME_RATIO:
            text = f"quiet for {time_ratio:.0%} of the time only (at least {LEAST_TIME_RATIO:.0%})"
            return block | {"reason": text}
        failed_ratio = float((~window.ok)[kept].mean()) if kept.any() else 0.0
        latency_ms = distribution(quiet.requests(window, kept), failed_ratio)
        _withhold(latency_ms, measured.summary, window.failed_ratio)
        return block | {"latency_ms": latency_ms}


def _elsewhere(summary: dict[str, Any]) -> str | None:
    """A disturbance of something else than the processor and its memory, in words."""
    findings = (summary.get("interference") or {}).get("findings", [])
    texts = [f["text"] for f in findings if f["quarantine"] and f["kind"] not in _IN_TIME]
    return f"not told in time, so that it can't be cut: {texts[0]}" if texts else None


def _withhold(latency_ms: dict[str, Any], summary: dict[str, Any], failed_ratio: float) -> None:
    """What is withheld of the whole for another reason than failed requests, of which the windows have their own."""
    withheld: dict[str, str] = (summary.get("e2e_latency_ms") or {}).get("withheld") or {}
    for quantile in FLOORS:
        name = NAMES[quantile]
        reason = withheld.get(name)
        if reason is not None and reason != failures_reason(quantile, failed_ratio):
            latency_ms[name] = latency_ms["ci95"][name] = None
            latency_ms["reasons"][name] = reason
