"""The time to the first token against the rate that was offered, with objective, knee, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour, line, text
from inferbench_tasks.analysis.report.knee import Curve, Knee, curves, rate_of

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: What is drawn, with its line; the mean only of runs that have too few answers for a median.
_LINES = {"p50": "solid", "p99": "dot"}
_MEAN = "mean, where a median takes more answers"
_UNKNOWN_COLOUR = "#7F7F7F"


def ttft_against_rate(views: Sequence[RunView]) -> Chart | None:
    """Median and p99 by the rate; runs that are not valid have open marks, those of which nothing stands a grey line.

    None where no run has any.
    """
    what = _arrivals(views)
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    for index, curve in enumerate(curves(views)[:MAX_RUNS]):
        for quantile, dash in _LINES.items():
            data += _trace(curve, index, quantile, what, name=quantile, line=line(index, dash=dash))
        data += _trace(curve, index, "mean", what, name=_MEAN, mode="markers", line=line(index))
        shapes += [_unknown(view) for view in curve.views if _unknown_at(view)]
        if (knee := Knee.of(curve)) is not None:
            shapes.append(bound(knee.rate_rps, f"knee {knee.rate_rps:.3g}/s"))
    if not data:
        return None
    objectives = {view.figure("tokens.each.ttft_ms") for view in views} - {None}
    shapes += [_objective(value) for value in sorted(objectives)]
    return chart(
        data,
        title="Time to the first token against the rate (knee: the highest rate that kept the objective)",
        xaxis=axis(f"{what} meant per second", rangemode="tozero"),
        yaxis=axis("time to the first token, ms (log)", log=True),
        shapes=shapes,
        showlegend=True,
    )


def _trace(
    curve: Curve, index: int, which: str, what: str, *, name: str, mode: str = "lines+markers", **more: Any
) -> list[dict[str, Any]]:
    """One figure of a curve's runs, as far as they have it; nothing where none has."""
    there = [
        (view, value)
        for view in curve.views
        if (value := view.figure(f"tokens.ttft_ms.{which}")) is not None
        and (which != "mean" or view.figure("tokens.ttft_ms.p50") is None)
    ]
    if not there:
        return []
    circle = "diamond" if which == "mean" else "circle"
    return [
        {
            "type": "scatter",
            "mode": mode,
            "name": f"{text(curve.label)}, {name}" if curve.label else name,
            "x": [rate_of(view) for view, _ in there],
            "y": [value for _, value in there],
            "customdata": ["" if view.valid else f" ({text(view.state)})" for view, _ in there],
            "marker": {
                "size": 8,
                "color": colour(index),
                "symbol": [circle if view.valid else f"{circle}-open" for view, _ in there],
            },
            "hovertemplate": f"%{{y:.4g}} ms at %{{x:.4g}} {what}/s%{{customdata}}"
            "<extra>%{fullData.name}</extra>",
            **more,
        }
    ]


def _objective(value_ms: float) -> dict[str, Any]:
    """The objective's line, its word below it: it often is the chart's upper end."""
    shape = bound(value_ms, f"SLO TTFT {value_ms:g} ms", along="y")
    shape["label"]["yanchor"] = "top"
    return shape


def _unknown_at(view: RunView) -> bool:
    return all(view.figure(f"tokens.ttft_ms.{which}") is None for which in (*_LINES, "mean"))


def _unknown(view: RunView) -> dict[str, Any]:
    """A line at the rate of a run whose times are all withheld; why is said above the charts."""
    rate = rate_of(view) or 0.0
    shape = bound(rate, f"{rate:.3g}/s: withheld")
    shape["line"] |= {"color": _UNKNOWN_COLOUR, "dash": "dot"}
    shape["label"]["font"] = {"color": _UNKNOWN_COLOUR, "size": 11}
    return shape


def _arrivals(views: Sequence[RunView]) -> str:
    """What the rates are of: of conversations each has several requests."""
    return "conversations" if any(view.figure("tokens.by_turn") for view in views) else "requests"
