"""Trade-offs: latency against throughput, and what no other configuration beats in everything under the same load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts import not_steady
from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour
from inferbench_tasks.analysis.energy_ground import mixed
from inferbench_tasks.analysis.report.columns import unsteady
from inferbench_tasks.analysis.report.loads import load_of
from inferbench_tasks.analysis.report.objective import LATENCY
from inferbench_tasks.analysis.steadiness import MARK
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from inferbench_tasks.analysis.report.runs import RunView
    from inferbench_tasks.figure import Figure

THROUGHPUT = "throughput_samples_per_s"


def latency_throughput(views: Sequence[RunView], slo_ms: dict[str, float]) -> Chart | None:
    """p99 (or the highest percentile that all valid runs have) against throughput, each load's Pareto front joined."""
    valid = [view for view in views if view.valid]
    quantile = _quantile(valid)
    if len(valid) < 2 or quantile is None:
        return None
    points = [
        (float(view.figure("throughput_samples_per_s")), float(view.figure(f"e2e_latency_ms.{quantile}")))
        for view in valid
    ]
    across = FIGURES[THROUGHPUT]
    figures = (across, FIGURES.named(quantile))
    fronts = fronts_by_load(valid, [(-x, y) for x, y in points], figures)
    front = set().union(*fronts.values())
    data: list[dict[str, Any]] = []
    for load, indexes in fronts.items():
        path = sorted(indexes, key=lambda index: points[index])
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "not beaten in both" + (f" under {load}" if len(fronts) > 1 else ""),
                "x": [points[i][0] for i in path],
                "y": [points[i][1] for i in path],
                "line": {"color": "#7F7F7F", "dash": "dot", "width": 1.5},
                "hoverinfo": "skip",
            }
        )
    for index, view in enumerate(valid):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": not_steady.named(across, view),
                # Of many runs those that nothing beats are named.
                "showlegend": len(valid) <= MAX_RUNS or (index in front and len(front) <= MAX_RUNS),
                "x": [points[index][0]],
                "y": [points[index][1]],
                "cliponaxis": False,
                "marker": {
                    "size": 11 if index in front else 8,
                    "color": colour(list(views).index(view)),
                    "symbol": not_steady.symbol(across, view, filled=index in front),
                },
                "hovertemplate": f"{name(view)}: %{{x:.4g}} samples/s, %{{y:.3g}} ms{not_steady.hover(across, view)}"
                "<extra></extra>",
            }
        )
    data += not_steady.legend(across, valid)
    under = " under its load" if len(fronts) > 1 else ""
    bounds = [
        bound(value, f"SLO {q} {value:g} ms", along="y") for q, value in slo_ms.items() if q == quantile
    ]
    return chart(
        data,
        title=f"Latency against throughput ({quantile}; filled: not beaten in both{under})",
        xaxis=axis("throughput, samples per second", range=[0, 1.2 * max(x for x, _ in points) or 1]),
        yaxis=axis(f"{quantile} latency, ms (log)", log=True),
        shapes=bounds,
    )


def pareto_table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The valid runs that no other under the same load beats in latency, CPU, energy and cost at once, as a table."""
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
    fronts = fronts_by_load(valid, points, present)
    rows = [
        [
            valid[index].label,
            *([load] if len(fronts) > 1 else []),
            *(
                f"{figure.displayed(v):.4g}{f' ({MARK})' if unsteady(figure, valid[index]) else ''}"
                for v, figure in zip(values[index], present, strict=True)
            ),
        ]
        for load, indexes in fronts.items()
        for index in sorted(indexes)
    ]
    title = "Pareto front: not beaten in all of these at once"
    title += next((ways for figure in present if (ways := mixed(figure, (v.summary for v in valid)))), "")
    beside = ["load"] if len(fronts) > 1 else []
    numbers = [1 + len(beside) + place for place in range(len(present))]
    return [
        {
            "title": title + (", under the same load" if beside else ""),
            "head": ["run", *beside, *(figure.axis for figure in present)],
            "rows": rows,
            "numbers": numbers,
        }
    ]


def fronts_by_load(
    views: Sequence[RunView], points: Sequence[tuple[float, ...]], figures: Sequence[Figure]
) -> dict[str, set[int]]:
    """The front of each load, as indexes: who was offered less has a low latency and a low cost for nothing.

    ``points``: the runs' values of ``figures``, less is better. A run is off its front only where one that is as good
    in everything is surely better in something: by both intervals and the judge, as everywhere.
    """
    from inferbench_tasks.analysis.report.distinguish import surely_lower
    from inferbench_tasks.analysis.report.judged import JudgedRuns

    judge = JudgedRuns(views)

    def surely(better: int, worse: int) -> bool:
        for place, figure in enumerate(figures):
            if points[better][place] >= points[worse][place]:
                continue
            if figure.path.startswith(LATENCY) and figure.interval is not None:
                if surely_lower(views[better], views[worse], figure.path.removeprefix(LATENCY), judge):
                    return True
            elif judge.differ(views[better], views[worse], figure.name):
                return True
        return False

    places: dict[str, list[int]] = {}
    for index, view in enumerate(views):
        places.setdefault(load_of(view), []).append(index)
    return {load: _front(indexes, points, surely) for load, indexes in places.items()}


def _front(
    indexes: Sequence[int], points: Sequence[tuple[float, ...]], surely: Callable[[int, int], bool]
) -> set[int]:
    """Those of the values' own front, and those that none of it surely beats."""
    first = [indexes[place] for place in sorted(pareto_front([points[index] for index in indexes]))]
    return {
        index
        for index in indexes
        if index in first
        or not any(
            all(a <= b for a, b in zip(points[other], points[index], strict=True)) and surely(other, index)
            for other in first
        )
    }


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
