"""The probes of runs that searched for their highest rate: which rate kept the objective, and how near it came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.loadgen.statistics import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

_SYMBOLS = {"kept": "circle", "broken": "x", "undecided": "circle-open", "unusable": "triangle-up-open"}
_ALLOWED = {f"{name}_ms": 1 - quantile for quantile, name in NAMES.items()}
#: Where a probe without a request over the bound stands on a logarithmic axis.
_LEAST = 1e-3


def probes(views: Sequence[RunView]) -> Chart | None:
    """Over the rate, the requests beyond the bounds as a part of those that may be: above 1 it is broken."""
    data: list[dict[str, Any]] = []
    for index, view in enumerate(_searched(views)[:MAX_RUNS]):
        rows = [row for row in view.figure("max_rate.probes") if row.get("objective")]
        for outcome, symbol in _SYMBOLS.items():
            marked = [
                (row["rate_rps"], pressure(row["objective"])) for row in rows if row["outcome"] == outcome
            ]
            points = [(rate, max(_LEAST, share)) for rate, share in marked if share is not None]
            if points:
                data.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "name": f"{name(view)}: {outcome}",
                        "x": [rate for rate, _ in points],
                        "y": [share for _, share in points],
                        "marker": {"symbol": symbol, "size": 9, "color": colour(index)},
                        "hovertemplate": "%{x:.4g} requests/s: %{y:.3g} of what may be<extra>%{fullData.name}</extra>",
                    }
                )
    if not data:
        return None
    return chart(
        data,
        title="Requests beyond the objective, as a part of those that may be",
        xaxis=axis("offered rate, requests/s", log=True),
        yaxis=axis("part of what may be", log=True),
        shapes=[bound(1.0, "objective", along="y")],
    )


def pressure(checks: dict[str, Any]) -> float | None:
    """Of the bounds on percentiles, the largest share of requests over one against the share that may be."""
    shares = [
        check["over"] / check["requests"] / _ALLOWED[figure]
        for figure, check in checks.items()
        if figure in _ALLOWED and check.get("requests")
    ]
    return max(shares, default=None)


def table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Every probe in its order, and what it said of its rate."""
    rows = []
    for view in _searched(views):
        for row in view.figure("max_rate.probes"):
            checks = row.get("objective") or {}
            values = ", ".join(
                f"{figure} {number(check['value'])}"
                for figure, check in checks.items()
                if check["value"] is not None
            )
            rows.append(
                [
                    view.label,
                    number(row["rate_rps"], 4),
                    number(row.get("duration_s")),
                    f"{row['requests']:,}" if "requests" in row else "–",
                    values or "–",
                    row["outcome"],
                    row["reason"],
                ]
            )
    if not rows:
        return []
    head = ["run", "requests/s", "s", "requests", "figures", "the objective is", "why"]
    return [{"title": "The probes in their order", "head": head, "rows": rows}]


def words(views: Sequence[RunView]) -> str:
    """The answer of each search, in a sentence each."""
    sentences = []
    for view in _searched(views):
        found = view.figure("max_rate")
        broken = found["broken_rps"]
        end = f"{number(broken, 4)} break it" if broken else "and no higher rate is known to break it"
        sentences.append(
            f"{view.label}: no rate that was tried is known to keep {found['objective']}."
            if found["rps"] is None
            else f"{view.label}: {number(found['rps'], 4)} requests/s keep {found['objective']}, {end}."
        )
    return " ".join(sentences)


def _searched(views: Sequence[RunView]) -> list[RunView]:
    return [view for view in views if view.figure("max_rate.probes")]
