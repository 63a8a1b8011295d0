"""What the server and its device used, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.charts.latency import name, warmup
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart, axis, chart, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inferbench_tasks.analysis.report.runs import RunView

#: Course -> (title, axis, factor).
COURSES = {
    "server.cpu_cores": ("CPU of the server over time", "CPU, cores", 1.0),
    "server.rss_bytes": ("Memory of the server over time", "resident memory, MiB", 1 / 2**20),
    "balancer.cpu_cores": ("CPU of the balancer over time", "CPU, cores", 1.0),
    "host.cpu_ratio": ("CPU of the whole machine over time", "busy share of all cores, %", 100.0),
    "gpu.utilisation_ratio": ("GPU utilisation over time", "utilisation, %", 100.0),
    "gpu.memory_used_bytes": ("GPU memory over time", "memory used, MiB", 1 / 2**20),
    "gpu.power_w": ("GPU power over time", "power, W", 1.0),
}


def resources(views: Sequence[RunView]) -> list[Chart]:
    """A chart for each course that was sampled in any run."""
    return [plot for course in COURSES if (plot := over_time(views, course))]


def over_time(views: Sequence[RunView], course: str) -> Chart | None:
    """One course of all runs."""
    title, unit, factor = COURSES[course]
    data: list[dict[str, Any]] = []
    start_s = 0.0
    for index, view in enumerate(views[:MAX_RUNS]):
        series = (view.figure("resources.timeseries") or {}).get(course)
        if not series or not series["t_s"]:
            continue
        start_s = min(start_s, view.figure("timeseries.t_s")[0] if view.figure("timeseries.t_s") else 0.0)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name(view),
                "x": series["t_s"],
                "y": [round(value * factor, 4) for value in series["value"]],
                "line": line(index, width=1.5),
                "hovertemplate": "%{y:.3g} at %{x:.1f} s<extra>%{fullData.name}</extra>",
            }
        )
    if not data:
        return None
    return chart(
        data,
        title=f"{title} (shaded: warm-up)",
        xaxis=axis("time since the measurement began, s"),
        yaxis=axis(unit, rangemode="tozero"),
        shapes=warmup(start_s),
    )
