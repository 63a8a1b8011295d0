"""How much slower each model of a share became: beside the others against alone.

A ratio's interval comes from those of its two sides: on the log scale they are near normal, so their standard errors
add up in quadrature (the delta method; as for a risk ratio, Katz et al. 1978).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.analysis.labels import plain
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.spread import DRIFT_RATIO
from inferbench_tasks.analysis.stated import Z95

LATENCIES = ("p50", "p99")
_NOTE = (
    "The intervals are for other requests of these two runs. What a machine changes from one run to the next, about "
    f"{DRIFT_RATIO:.0%} on a quiet one, is not in them: a ratio so near to 1 may be that."
)


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval; ``low`` and ``high`` None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    def over(self, other: Estimate) -> Estimate | None:
        """This by the other."""
        if not other.value or not self.value:
            return None
        ratio = self.value / other.value
        errors = [e.log_error() for e in (self, other)]
        if any(error is None for error in errors):
            return Estimate(ratio)
        factor = math.exp(Z95 * math.hypot(*(e for e in errors if e is not None)))
        return Estimate(ratio, ratio / factor, ratio * factor)

    def log_error(self) -> float | None:
        """The standard error of its logarithm."""
        if self.low is None or self.high is None or self.low <= 0:
            return None
        return math.log(self.high / self.low) / (2 * Z95)


def slowdowns(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """{member, model, alone, together, p50, p99, throughput} per model that was measured both ways.

    ``p50``, ``p99``: latency beside the others by latency alone; ``throughput``: likewise; None where a side lacks it.
    """
    alone: dict[str, RunView] = {}
    together: dict[str, RunView] = {}
    for view in views:
        share = view.job.get("share")
        if share and view.measured:
            rest = {**view.job, "share": {**share, "beside": None}}
            (together if share.get("beside") else alone)[json.dumps(rest, sort_keys=True, default=str)] = view
    return [_compare(alone[key], together[key]) for key in alone if key in together]


def sharing_table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The slow-downs as a report's table, and what the neighbours' loads really were; [] without any."""
    rows = [
        [
            row["model"],
            row["method"],
            row["beside"],
            "; ".join(row["neighbours"]) or "–",
            *(_text(row[name]) for name in (*LATENCIES, "throughput")),
            row["verdict"],
        ]
        for row in slowdowns(views)
    ]
    head = ["model", "method", "beside", "the others' loads", "p50 ×", "p99 ×", "throughput ×", "verdict"]
    title = "Beside the others against alone: ratio (95% interval)"
    return [{"title": title, "head": head, "rows": rows, "note": _NOTE}] if rows else []


def _compare(alone: RunView, together: RunView) -> dict[str, Any]:
    share = together.job["share"]
    ratios = {name: _ratio(_latency(together, name), _latency(alone, name)) for name in LATENCIES}
    verdicts = {view.said for view in (alone, together) if not view.valid}
    cores = share.get("cores")
    return {
        "member": share.get("member") or 0,
        "model": alone.result.model.name if alone.result else "?",
        "method": share["method"] + (f", cores {list(cores)}" if cores else ""),
        "beside": plain(share["beside"]),
        "neighbours": [_load_of(neighbour) for neighbour in _neighbours(together)],
        "alone": alone.run_id,
        "together": together.run_id,
        **ratios,
        "throughput": _ratio(_throughput(together), _throughput(alone)),
        "verdict": "; ".join(sorted(verdicts)) or "valid",
    }


def _neighbours(view: RunView) -> list[dict[str, Any]]:
    about = view.result.extensions.get("sharing") if view.result else None
    return about["neighbours"] if about else []


def _load_of(neighbour: dict[str, Any]) -> str:
    """Answered requests per second and the share that failed, of one neighbour; older results lack the latter."""
    rate, errors = neighbour.get("throughput_rps"), neighbour.get("error_ratio")
    parts = [
        "nothing answered" if rate is None else f"{rate:.4g}/s",
        None if errors is None else f"{errors:.2%} failed",
    ]
    return f"{neighbour['model']} " + ", ".join(part for part in parts if part)


def _ratio(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    return one.over(other) if one and other else None


def _latency(view: RunView, name: str) -> Estimate | None:
    value = view.figure(f"e2e_latency_ms.{name}")
    bounds = (view.figure("e2e_latency_ms.ci95") or {}).get(name)
    return None if value is None else Estimate(value, *(bounds or (None, None)))


def _throughput(view: RunView) -> Estimate | None:
    """Its interval from the window's seconds, as many whole ones as there are."""
    value = view.figure("throughput_rps")
    if value is None:
        return None
    course = view.figure("timeseries") or {}
    last_s = math.floor(_seconds(view))
    counts = [
        n for at, n in zip(course.get("t_s", []), course.get("ok", []), strict=True) if 0 <= at < last_s
    ]
    if len(counts) < 3 or np.std(counts) == 0:
        return Estimate(value)
    from scipy.special import stdtrit  # scipy.stats takes a second to import, in every report

    half = float(stdtrit(len(counts) - 1, 0.975) * np.std(counts, ddof=1) / math.sqrt(len(counts)))
    return Estimate(value, value - half, value + half)


def _seconds(view: RunView) -> float:
    if view.result is None:
        return 0.0
    window = view.result.extensions["measured_window"]
    return float(window["end_ns"] - window["start_ns"]) / 1e9


def _text(ratio: Estimate | None) -> str:
    if ratio is None:
        return "–"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
