"""Trade-offs: latency against throughput, and what no other configuration beats in everything under the same load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from inferbench_tasks.analysis.charts import not_steady
from inferbench_tasks.analysis.charts.latency import name
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, bound, chart, colour
from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.price_ground import priced_at
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


class Ground(NamedTuple):
    """Within which one run can be better than another: its load; where a figure is one of energy or cost, how it was
    got and of when its prices are, else "". A run of another ground is neither better nor worse.
    """

    load: str
    method: str
    prices: str


#: What a table of several grounds says of its front, by what these differ in.
_AMONG = {
    "load": "under the same load",
    "method": "by energies of the same method",
    "prices": "at prices of the same date",
}


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
    fronts = fronts_by_ground(valid, [(-x, y) for x, y in points], figures)
    front = set().union(*fronts.values())
    data: list[dict[str, Any]] = []
    for ground, indexes in fronts.items():
        path = sorted(indexes, key=lambda index: points[index])
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "not beaten in both" + (f" under {ground.load}" if len(fronts) > 1 else ""),
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
    """The valid runs that no other of the same ground beats in latency, CPU, energy and cost at once, as a table."""
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
    fronts = fronts_by_ground(valid, points, present)
    beside = [
        place for place, words in enumerate(zip(*fronts, strict=True)) if len({*words}) > 1
    ]  # of what grounds are, that in which they differ
    rows = [
        [
            valid[index].label,
            *(ground[place] for place in beside),
            *(
                f"{figure.displayed(v):.4g}{f' ({MARK})' if unsteady(figure, valid[index]) else ''}"
                for v, figure in zip(values[index], present, strict=True)
            ),
        ]
        for ground, indexes in fronts.items()
        for index in sorted(indexes)
    ]
    heads = [Ground._fields[place] for place in beside]
    title = ", ".join(["Pareto front: not beaten in all of these at once", *(_AMONG[head] for head in heads)])
    numbers = [1 + len(beside) + place for place in range(len(present))]
    return [
        {
            "title": title,
            "head": ["run", *heads, *(figure.axis for figure in present)],
            "rows": rows,
            "numbers": numbers,
        }
    ]


def fronts_by_ground(
    views: Sequence[RunView], points: Sequence[tuple[float, ...]], figures: Sequence[Figure]
) -> dict[Ground, set[int]]:
    """The front of each ground, as indexes: who was offered less has a low latency and a low cost for nothing, and a
    counter of a whole processor reads more than an estimate of a share of it.

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

    places: dict[Ground, list[int]] = {}
    for index, view in enumerate(views):
        places.setdefault(_ground(view, figures), []).append(index)
    return {ground: _front(indexes, points, surely) for ground, indexes in places.items()}


def _ground(view: RunView, figures: Sequence[Figure]) -> Ground:
    ways = dict.fromkeys(got_by(figure, view.summary) for figure in figures if figure.energy_based)
    date = priced_at(view.summary) if any(figure.price_based for figure in figures) else None
    return Ground(load_of(view), "; ".join(ways), f"prices of {date}" if date else "")


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
