"""A sweep's figures over what was swept: a bar for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.style import Chart, axis, by_run, chart, colour, rows_height, text
from inferbench_tasks.analysis.energy_ground import got_by, ways
from inferbench_tasks.analysis.report.columns import unsteady
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.steadiness import MARK
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: More bars than this are pages of them: heat maps and the table of runs show such a sweep.
MOST_BARS = 32


def charted() -> list[Figure]:
    """The figures that are drawn over a sweep; first the tail of the latency, which objectives bound."""
    return sorted(FIGURES.on("sweep"), key=lambda figure: figure.name != "p99_ms")


def comparison(views: Sequence[RunView]) -> list[Chart]:
    """A chart per figure over the runs of a sweep, and per way in which energies were got; [] for a single run, and for
    more than can be told apart.
    """
    if not 2 <= len(views) <= MOST_BARS:
        return []
    return [
        plot
        for figure in charted()
        for way in ways(figure, (view.summary for view in views))
        if (plot := bars(views, figure, way))
    ]


def bars(views: Sequence[RunView], figure: Figure, way: str = "") -> Chart | None:
    """A figure of every run, or of those whose energy was got in that ``way``; runs that are not valid are hatched."""
    colours = {view.run_id: colour(place) for place, view in enumerate(views)}
    views = [view for view in views if not way or got_by(figure, view.summary) == way]
    values = [view.value(figure) for view in views]
    lengths = [None if value is None else figure.displayed(value) for value in values]
    if all(value is None for value in lengths):
        return None
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": [text(view.label) for view in views],
        "x": lengths,
        "marker": {
            "color": [colours[view.run_id] for view in views],
            "pattern": {"shape": ["" if view.valid else "/" for view in views]},
        },
        "text": [
            "" if value is None else number(value) + (f" ({MARK})" if unsteady(figure, view) else "")
            for value, view in zip(lengths, views, strict=True)
        ],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{x:.4g}<extra></extra>",
    }
    hatched = "" if all(view.valid for view in views) else " (hatched: not valid)"
    return chart(
        [trace],
        title=figure.title + (f" ({way})" if way else "") + hatched,
        # Room for the longest number behind the longest bar.
        xaxis=axis(
            figure.axis,
            range=[0, 1.35 * max(value for value in lengths if value is not None) or 1],
            nticks=5,
            tickangle=0,
        ),
        yaxis=by_run([view.label for view in views]),
        showlegend=False,
        height=rows_height([view.label for view in views], 110),
    )
