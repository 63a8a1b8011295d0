"""Heat maps: a metric over any two swept parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.figures.style import Figure, axis, figure, text
from inferbench_tasks.analysis.figures.sweep import METRICS, metric
from inferbench_tasks.analysis.page import number
from inferbench_tasks.analysis.runs import plain, short_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.runs import RunView


def heat_maps(views: Sequence[RunView]) -> list[Figure]:
    """One per metric over the two parameters that a sweep varied independently; [] for other sweeps."""
    axes = grid_axes(views)
    if axes is None:
        return []
    shown = ("e2e_latency_ms.p99", "throughput_samples_per_s", "cpu_ms_per_sample")
    return [found for path in shown if (found := heat_map(views, *axes, path))]


def grid_axes(views: Sequence[RunView]) -> tuple[str, str] | None:
    """The two swept parameters with the most values, if runs lie on a grid of them, one run per point."""
    values: dict[str, set[str]] = {}
    for view in views:
        for path, value in (view.differs or {}).items():
            values.setdefault(path, set()).add(repr(value))
    paths = sorted((path for path in values if len(values[path]) > 1), key=lambda path: -len(values[path]))
    for i, x in enumerate(paths):
        for y in paths[i + 1 :]:
            points = [(repr((v.differs or {}).get(x)), repr((v.differs or {}).get(y))) for v in views]
            full = len(values[x]) * len(values[y])
            if len(set(points)) == len(points) == full:
                return x, y
    return None


def heat_map(views: Sequence[RunView], x: str, y: str, path: str) -> Figure | None:
    """A metric at every point of the grid; points without a valid figure stay empty and say why."""
    title, unit, factor = METRICS[path]
    xs, ys = (_ordered((view.differs or {}).get(name) for view in views) for name in (x, y))
    cells: dict[tuple[str, str], RunView] = {
        (repr((v.differs or {}).get(x)), repr((v.differs or {}).get(y))): v for v in views
    }
    numbers: list[list[float | None]] = []
    labels: list[list[str]] = []
    for b in ys:
        row = [cells[repr(a), repr(b)] for a in xs]
        values = [metric(view, path) if view.valid else None for view in row]
        numbers.append([None if value is None else value * factor for value in values])
        labels.append(
            [
                number(value * factor)
                if value is not None
                else text(view.verdict.partition(":")[0] if not view.valid else "–")
                for view, value in zip(row, values, strict=True)
            ]
        )
    if all(value is None for line in numbers for value in line):
        return None
    names = short_names([x, y])
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [text(plain(a)) for a in xs],
        "y": [text(plain(b)) for b in ys],
        "z": numbers,
        "text": labels,
        "texttemplate": "%{text}",
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": text(unit), "side": "right"}},
        "hovertemplate": f"{text(names[x])} %{{x}}, {text(names[y])} %{{y}}: %{{text}}<extra></extra>",
    }
    return figure(
        [trace],
        title=title,
        xaxis=axis(names[x], type="category", showgrid=False),
        yaxis=axis(names[y], type="category", showgrid=False),
    )


def _ordered(values: Any) -> list[Any]:
    """Each value once; numbers by size, others in the order of the sweep."""
    unique = list({repr(value): value for value in values}.values())
    numeric = all(isinstance(value, (int, float)) for value in unique)
    return sorted(unique) if numeric else unique
