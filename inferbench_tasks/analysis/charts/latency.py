"""Latency: its distribution, its percentiles with their intervals, and its course."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour, line, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from inferbench_tasks.analysis.report.runs import RunView

PERCENTILES = ("p50", "p90", "p95", "p99", "p999")
#: Points of a distribution's curve; each is a real sample at its exact rank.
_POINTS = 400
#: In place of an interval that is not known: no number, or plotly would draw one of no width.
_NO_BAR = "unknown"
#: A bound beyond so many times the highest bar is not drawn.
_FAR = 3.0


def name(view: RunView) -> str:
    """The run's label, marked when its figures don't count."""
    return text(view.label if view.valid else f"{view.label} — {view.state}")


def curve_name(view: RunView) -> str:
    """The same of a curve of all latencies, which says what of them is withheld elsewhere, not being the server's."""
    certificate = view.result.certificate if view.result else {}
    withheld = ((certificate or {}).get("withheld") or {}).get("e2e_latency_ms") or {}
    return name(view) + (f" ({', '.join(withheld)} withheld)" if withheld else "")


def cdf(views: Sequence[RunView], slo_ms: dict[str, float]) -> Chart | None:
    """The share of requests answered within a time; those that failed never were, so that it ends below 100%."""
    data: list[dict[str, Any]] = []
    for index, view in enumerate(views[:MAX_RUNS]):
        if view.problem is not None or view.latencies_ms is None or not len(view.latencies_ms):
            continue
        ranks = ecdf_ranks(len(view.latencies_ms))
        requests = max(len(view.latencies_ms), view.figure("requests") or 0)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": curve_name(view),
                "x": view.latencies_ms[ranks - 1].tolist(),
                "y": (ranks / requests).tolist(),
                "line": line(index, shape="hv"),
                "opacity": 1 if view.valid else 0.45,
                "hovertemplate": "%{y:.2%} within %{x:.3f} ms<extra>%{fullData.name}</extra>",
            }
        )
    if not data:
        return None
    shapes = [bound(value, f"SLO {q} {value:g} ms") for q, value in slo_ms.items()]
    return chart(
        data,
        title="Latency, cumulative",
        xaxis=axis("end-to-end latency, ms (log)", log=True),
        yaxis=axis("share of requests", tickformat=".0%", range=[0, 1.02]),
        shapes=shapes,
    )


def ecdf_ranks(samples: int) -> NDArray[np.int64]:
    """Ranks (from 1) at which a distribution is drawn: even in the middle, ever finer into the upper tail."""
    tail = 1 - np.geomspace(1, 1 / samples, _POINTS // 2)
    shares = np.union1d(np.linspace(0, 1, _POINTS // 2), tail)
    return np.unique(np.clip(np.ceil(shares * samples), 1, samples)).astype(np.int64)


def percentiles(views: Sequence[RunView], slo_ms: dict[str, float]) -> Chart | None:
    """Percentiles side by side with their 95% intervals; one that too few samples support is left out.

    A bound far above all of them is told in the title: drawn, it would leave nothing of the bars to see.
    """
    data = []
    quantiles = [
        q for q in PERCENTILES if any(view.figure(f"e2e_latency_ms.{q}") is not None for view in views)
    ]
    highest = 0.0
    bounded: list[bool] = []
    for index, view in enumerate(views[:MAX_RUNS]):
        values = [view.figure(f"e2e_latency_ms.{q}") for q in quantiles]
        if all(value is None for value in values):
            continue
        highest = max(highest, *(value for value in values if value is not None))
        intervals = view.figure("e2e_latency_ms.ci95") or {}
        bounds = [intervals.get(q) for q in quantiles]
        bounded += [bool(b) for v, b in zip(values, bounds, strict=True) if v is not None]
        pairs = list(zip(values, bounds, strict=True))
        data.append(
            {
                "type": "bar",
                "name": name(view),
                "x": quantiles,
                "y": values,
                "marker": {"color": colour(index), "opacity": 1 if view.valid else 0.35},
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [b[1] - v if v is not None and b else _NO_BAR for v, b in pairs],
                    "arrayminus": [v - b[0] if v is not None and b else _NO_BAR for v, b in pairs],
                    "thickness": 1.2,
                    "color": "#333",
                },
                "hovertemplate": "%{x}: %{y:.3f} ms<extra>%{fullData.name}</extra>",
            }
        )
    if not data:
        return None
    near = {q: value for q, value in slo_ms.items() if value <= _FAR * highest}
    far = ", ".join(f"{q} {value:g} ms" for q, value in slo_ms.items() if q not in near)
    return chart(
        data,
        title=_with_intervals(bounded) + (f" (SLO far above: {far})" if far else ""),
        xaxis=axis("percentile", type="category"),
        yaxis=axis("end-to-end latency, ms", rangemode="tozero"),
        barmode="group",
        shapes=[bound(value, f"SLO {q} {value:g} ms", along="y") for q, value in near.items()],
    )


def _with_intervals(bounded: Sequence[bool]) -> str:
    """The title: a bar without its interval must not look like one that is sure."""
    if all(bounded):
        return "Latency percentiles with 95% intervals"
    if any(bounded):
        return "Latency percentiles, 95% intervals where enough requests are independent"
    return "Latency percentiles (too few independent requests for intervals)"


def course(views: Sequence[RunView]) -> Chart | None:
    """p50 and maximum per second over the whole load, warm-up shaded."""
    data: list[dict[str, Any]] = []
    warmup_s = 0.0
    for index, view in enumerate(views[:MAX_RUNS]):
        series = view.figure("timeseries") or {}
        if not series.get("t_s"):
            continue
        warmup_s = min(warmup_s, float(series["t_s"][0]))
        for column, width in (("p50_ms", 2), ("max_ms", 1)):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": name(view),
                    "legendgroup": name(view),
                    "showlegend": column == "p50_ms",
                    "x": [t + 0.5 for t in series["t_s"]],
                    "y": series[column],
                    "line": line(index, width=width, dash="solid" if width == 2 else "dot"),
                    "marker": {"size": 4 if width == 2 else 3},
                    "hovertemplate": column.removesuffix("_ms")
                    + " %{y:.3f} ms at %{x:.1f} s<extra>%{fullData.name}</extra>",
                }
            )
    if not data:
        return None
    return chart(
        data,
        title="Latency over time, per second (line: p50, dots: maximum)",
        xaxis=axis("time since the measurement began, s"),
        yaxis=axis("end-to-end latency, ms (log)", log=True),
        shapes=warmup(warmup_s),
    )


def warmup(start_s: float) -> list[dict[str, Any]]:
    """The warm-up as a shaded band."""
    if start_s >= 0:
        return []
    band = {"x0": start_s, "x1": 0, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    return [{"type": "rect", "fillcolor": "#000", "opacity": 0.05, "line": {"width": 0}, **band}]
