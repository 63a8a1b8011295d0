"""A sweep's figures over what was swept: bars by category, lines by number, a heat map over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.style import Figure, axis, by_run, colour, figure, rows_height, text
from inferbench_tasks.analysis.report.page import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: Metric -> (title, axis, factor).
METRICS: dict[str, tuple[str, str, float]] = {
    "e2e_latency_ms.p99": ("p99 latency", "p99 latency, ms", 1),
    "e2e_latency_ms.p50": ("Median latency", "p50 latency, ms", 1),
    "throughput_samples_per_s": ("Throughput", "samples per second", 1),
    "cpu_ms_per_sample": ("CPU of the server per sample", "CPU, ms per sample", 1),
    "resources.server.rss_bytes.max": ("Memory of the server", "peak RSS, MiB", 1 / 2**20),
    "energy.joule_per_sample": ("Energy", "energy, J per sample", 1),
    "co2_g_per_1k/samples": ("CO₂", "CO₂e, g per 1,000 samples", 1),
    "cost_usd_per_1k/samples": ("Cost", "USD per 1,000 samples", 1),
}


#: More bars than this are pages of them: heat maps and the table of runs show such a sweep.
MOST_BARS = 32


def metric(view: RunView, path: str) -> float | None:
    """A figure of the summary, or one derived from two; ``/samples``: one per request as one per sample.

    Derived, not read where ``collect`` stores it: results from before that have it too.
    """
    if path == "cpu_ms_per_sample":
        cores = view.figure("resources.server.cpu_cores.mean")
        rate = view.figure("throughput_samples_per_s")
        return cores * 1e3 / rate if cores is not None and rate else None
    figure_path, _, per = path.partition("/")
    value, samples = view.figure(figure_path), view.samples_per_request if per else 1
    return float(value) / samples if value is not None and samples else None


def comparison(views: Sequence[RunView]) -> list[Figure]:
    """One figure per metric over the runs of a sweep; [] for a single run, and for more than can be told apart."""
    if not 2 <= len(views) <= MOST_BARS:
        return []
    return [found for path in METRICS if (found := bars(views, path))]


def bars(views: Sequence[RunView], path: str) -> Figure | None:
    """A metric of every run; runs that are not valid are hatched."""
    title, unit, factor = METRICS[path]
    values = [metric(view, path) for view in views]
    if all(value is None for value in values):
        return None
    trace: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "y": [text(view.label) for view in views],
        "x": [None if value is None else value * factor for value in values],
        "marker": {
            "color": [colour(i) for i in range(len(views))],
            "pattern": {"shape": ["" if view.valid else "/" for view in views]},
        },
        "text": ["" if value is None else number(value * factor) for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{x:.4g}<extra></extra>",
    }
    hatched = "" if all(view.valid for view in views) else " (hatched: not valid)"
    return figure(
        [trace],
        title=title + hatched,
        # Room for the longest number behind the longest bar.
        xaxis=axis(
            unit,
            range=[0, 1.35 * factor * max(v for v in values if v is not None) or 1],
            nticks=5,
            tickangle=0,
        ),
        yaxis=by_run([view.label for view in views]),
        showlegend=False,
        height=rows_height([view.label for view in views], 110),
    )
