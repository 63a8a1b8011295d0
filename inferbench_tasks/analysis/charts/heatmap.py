"""Heat maps: a figure over any two swept parameters, or over all of a larger sweep folded into two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.grid import Axis, axes_of, fold
from inferbench_tasks.analysis.charts.style import Chart, axis, chart, text
from inferbench_tasks.analysis.charts.sweep import charted
from inferbench_tasks.analysis.energy_ground import got_by, ways
from inferbench_tasks.analysis.intensity import position
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: Up to so many runs, bars show the other figures better; a larger grid gets a map of each.
FEW_RUNS = 20
#: What few runs get a map of, beside their latency.
FEW = ("throughput_samples_per_s", "cpu_ms_per_sample")
#: More columns than this do not fit into half a page.
NARROW = 7


def heat_maps(views: Sequence[RunView]) -> list[Chart]:
    """One per figure over what a sweep varied independently, and per way in which energies were got; [] for sweeps of
    less than two such parameters.
    """
    axes = axes_of(views)
    if len(axes) < 2:
        return []
    across, down = fold(axes)
    valid = [view.summary for view in views if view.valid]
    maps = {
        figure.name: [
            heat
            for way in ways(figure, valid)
            if (heat := heat_map(views, across, down, figure, way)) is not None
        ]
        for figure in charted()
    }
    if len(views) <= FEW_RUNS:
        # The median stands in where too few requests support a p99.
        latency = "p99_ms" if maps["p99_ms"] else "p50_ms"
        maps = {name: maps[name] for name in (latency, *FEW)}
    return [chart for of_figure in maps.values() for chart in of_figure]


def wide(maps: Sequence[Chart]) -> bool:
    """Whether the maps need the page's whole width."""
    return any(len(heat["data"][0]["x"]) > NARROW for heat in maps)


def heat_map(
    views: Sequence[RunView], across: Axis, down: Axis, figure: Figure, way: str = ""
) -> Chart | None:
    """A figure at every point of the grid; points of runs that are not valid stay empty and say why. ``way``: only
    of runs whose energy was got so; the colours of one scale would call another way's the better one.
    """

    def shown(view: RunView) -> float | None:
        value = view.value(figure)
        if value is None or (way and got_by(figure, view.summary) != way):
            return None
        return figure.displayed(value)

    title = f"{figure.title} ({way})" if way else figure.title
    return _drawn(views, across, down, shown, title, figure.axis)


def attained_map(views: Sequence[RunView]) -> Chart | None:
    """FLOP/s that runs of a model attained (``intensity.position``) over two swept parameters; None without two."""
    axes = axes_of(views)
    if len(axes) < 2:
        return None

    def attained(view: RunView) -> float | None:
        place = position(view)
        return None if place is None else place[1]

    families = {view.job.get("model", {}).get("family") for view in views} - {None}
    of = f": {families.pop()}" if len(families) == 1 else ""
    return _drawn(views, *fold(axes), attained, f"Attained in the model's runs{text(of)}", "GFLOP/s")


def _drawn(
    views: Sequence[RunView],
    across: Axis,
    down: Axis,
    shown: Callable[[RunView], float | None],
    title: str,
    unit: str,
) -> Chart | None:
    """What is ``shown`` of each run, at its place."""
    numbers: list[list[float | None]] = [[None] * len(across.labels) for _ in down.labels]
    labels = [["–"] * len(across.labels) for _ in down.labels]
    for view, x, y in zip(views, across.place, down.place, strict=True):
        value = shown(view) if view.valid else None
        if value is not None:
            numbers[y][x] = value
            labels[y][x] = number(value)
        elif not view.valid:
            labels[y][x] = text(view.state)
    if all(value is None for line in numbers for value in line):
        return None
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [text(label) for label in across.labels],
        "y": [text(label) for label in down.labels],
        "z": numbers,
        "text": labels,
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": text(unit), "side": "right"}, "thickness": 14},
        "hovertemplate": f"{text(across.title)} %{{x}}, {text(down.title)} %{{y}}: %{{text}}<extra></extra>",
    }
    return chart(
        [trace],
        title=title,
        xaxis=axis(across.title, type="category", showgrid=False),
        yaxis=axis(down.title, type="category", showgrid=False),
        height=max(380, 130 + 28 * len(down.labels)),
    )
