"""Heat maps: a metric over any two swept parameters, or over all of a larger sweep folded into two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.grid import Axis, axes_of, fold
from inferbench_tasks.analysis.charts.style import Figure, axis, figure, text
from inferbench_tasks.analysis.charts.sweep import METRICS, metric
from inferbench_tasks.analysis.report.page import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: Up to so many runs, bars show the other metrics better; a larger grid gets a map of each.
FEW_RUNS = 20
#: More columns than this do not fit into half a page.
NARROW = 7


def heat_maps(views: Sequence[RunView]) -> list[Figure]:
    """One per metric over what a sweep varied independently; [] for sweeps of less than two such parameters."""
    axes = axes_of(views)
    if len(axes) < 2:
        return []
    across, down = fold(axes)
    paths: tuple[str, ...] = (
        "e2e_latency_ms.p99",
        "e2e_latency_ms.p50",
        "throughput_samples_per_s",
        "cpu_ms_per_sample",
    )
    if len(views) > FEW_RUNS:
        paths = tuple(METRICS)
    elif heat_map(views, across, down, paths[0]):
        paths = (paths[0], *paths[2:])  # the median stands in where too few requests support a p99
    return [found for path in paths if (found := heat_map(views, across, down, path))]


def wide(maps: Sequence[Figure]) -> bool:
    """Whether the maps need the page's whole width."""
    return any(len(drawn["data"][0]["x"]) > NARROW for drawn in maps)


def heat_map(views: Sequence[RunView], across: Axis, down: Axis, path: str) -> Figure | None:
    """A metric at every point of the grid; points without a valid figure stay empty and say why."""
    title, unit, factor = METRICS[path]
    numbers: list[list[float | None]] = [[None] * len(across.labels) for _ in down.labels]
    labels = [["–"] * len(across.labels) for _ in down.labels]
    for view, x, y in zip(views, across.place, down.place, strict=True):
        value = metric(view, path) if view.valid else None
        numbers[y][x] = None if value is None else value * factor
        if value is not None:
            labels[y][x] = number(value * factor)
        elif not view.valid:
            labels[y][x] = text(view.verdict.partition(":")[0])
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
    return figure(
        [trace],
        title=title,
        xaxis=axis(across.title, type="category", showgrid=False),
        yaxis=axis(down.title, type="category", showgrid=False),
        height=max(380, 130 + 28 * len(down.labels)),
    )
