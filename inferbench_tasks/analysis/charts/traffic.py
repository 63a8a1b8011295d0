"""Requests, answers, errors and requests in flight over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name, warmup
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, chart, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView


#: What a window's length may be rounded by.
_ROUNDING_S = 1e-3


def traffic(views: Sequence[RunView]) -> Chart | None:
    """Answers per second (line) against the requests meant for that second (dots), and errors (crosses)."""
    data: list[dict[str, Any]] = []
    start_s = 0.0
    for index, view in enumerate(views[:MAX_RUNS]):
        series = view.figure("timeseries") or {}
        if not series.get("t_s"):
            continue
        start_s = min(start_s, float(series["t_s"][0]))
        # After the last second for which any were meant there is only what was still under way: no rate.
        seconds = max(
            (second for second, count in enumerate(series["requests"], start=1) if count), default=0
        )
        seconds = min(seconds, _whole(view, series["t_s"]))
        if not seconds:
            continue
        x = [t + 0.5 for t in series["t_s"][:seconds]]
        marks = [("ok", "answered", "lines", None), ("requests", "meant", "markers", "circle-open")]
        if any(series["errors"][:seconds]):
            marks.append(("errors", "failed", "markers", "x"))
        for column, word, mode, symbol in marks:
            trace: dict[str, Any] = {
                "type": "scatter",
                "mode": mode,
                "name": name(view) if column != "errors" else f"{name(view)}, failed",
                "legendgroup": name(view),
                "showlegend": column != "requests",
                "x": x,
                "y": series[column][:seconds],
                "line": line(index),
                "hovertemplate": f"{word}: %{{y}} at %{{x:.1f}} s<extra>%{{fullData.name}}</extra>",
            }
            if symbol:
                trace["marker"] = {"symbol": symbol, "size": 6, "color": line(index)["color"]}
            data.append(trace)
    if not data:
        return None
    return chart(
        data,
        title="Requests per second (line: answered, circles: meant)",
        xaxis=axis("time since the measurement began, s"),
        yaxis=axis("requests per second", rangemode="tozero"),
        shapes=warmup(start_s),
    )


def _whole(view: RunView, starts_s: Sequence[float]) -> int:
    """How many of these seconds were over when the window was: a part of one has a part of its requests."""
    if view.result is None:
        return len(starts_s)
    window = view.result.extensions["measured_window"]
    length_s = (window["end_ns"] - window["start_ns"]) / 1e9
    return sum(start_s + 1 <= length_s + _ROUNDING_S for start_s in starts_s)
