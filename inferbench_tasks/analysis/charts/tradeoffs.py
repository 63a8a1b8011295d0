"""Trade-offs: latency against throughput, and what no other configuration beats in everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView


def latency_throughput(views: Sequence[RunView], slo_ms: dict[str, float]) -> Chart | None:
    """p99 (or the highest percentile that all valid runs have) against throughput, the Pareto front joined."""
    valid = [view for view in views if view.valid]
    quantile = _quantile(valid)
    if len(valid) < 2 or quantile is None:
        return None
    points = [
        (float(view.figure("throughput_samples_per_s")), float(view.figure(f"e2e_latency_ms.{quantile}")))
        for view in valid
    ]
    front = pareto_front([(-x, y) for x, y in points])
    path = sorted(front, key=lambda index: points[index])
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "not beaten in both",
            "x": [points[i][0] for i in path],
            "y": [points[i][1] for i in path],
            "line": {"color": "#7F7F7F", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        }
    ]
    for index, view in enumerate(valid):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name(view),
                # Of many runs those that nothing beats are named.
                "showlegend": len(valid) <= MAX_RUNS or (index in front and len(front) <= MAX_RUNS),
                "x": [points[index][0]],
                "y": [points[index][1]],
                "cliponaxis": False,
                "marker": {
                    "size": 11 if index in front else 8,
                    "color": colour(list(views).index(view)),
                    "symbol": "circle" if index in front else "circle-open",
                },
                "hovertemplate": f"{name(view)}: %{{x:.4g}} samples/s, %{{y:.3g}} ms<extra></extra>",
            }
        )
    bounds = [
        bound(value, f"SLO {q} {value:g} ms", along="y") for q, value in slo_ms.items() if q == quantile
    ]
    return chart(
        data,
        title=f"Latency against throughput ({quantile}; filled: not beaten in both)",
        xaxis=axis("throughput, samples per second", range=[0, 1.2 * max(x for x, _ in points) or 1]),
        yaxis=axis(f"{quantile} latency, ms (log)", log=True),
        shapes=bounds,
    )


def pareto_table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The valid runs that no other beats in latency, CPU, energy and cost at once, as a table."""
    valid = [view for view in views if view.valid]
    present = [
        figure for figure in FIGURES.on("pareto") if all(view.value(figure) is not None for view in valid)
    ]
    if len(valid) < 3 or not present:
        return []
    values = [[view.value(figure) or 0.0 for figure in present] for view in valid]
    points = [
        tuple(-value if figure.higher else value for value, figure in zip(row, present, strict=True))
        for row in values
    ]
    rows = [
        [
            valid[index].label,
            *(f"{figure.displayed(v):.4g}" for v, figure in zip(values[index], present, strict=True)),
        ]
        for index in sorted(pareto_front(points))
    ]
    title, numbers = "Pareto front: not beaten in all of these at once", list(range(1, len(present) + 1))
    return [
        {
            "title": title,
            "head": ["run", *(figure.axis for figure in present)],
            "rows": rows,
            "numbers": numbers,
        }
    ]


def pareto_front(points: Sequence[tuple[float, ...]]) -> set[int]:
    """Indices of the points that no other is at least as good in everything and better in something; less is better."""
    front = set()
    for index, point in enumerate(points):
        beaten = any(
            all(a <= b for a, b in zip(other, point, strict=True)) and other != point for other in points
        )
        if not beaten:
            front.add(index)
    return front


def _quantile(views: Sequence[RunView]) -> str | None:
    for quantile in ("p99", "p95", "p90", "p50"):
        if views and all(view.figure(f"e2e_latency_ms.{quantile}") is not None for view in views):
            return quantile
    return None
