"""The charts and tables of a report, in groups; a group or chart without data is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.charts import (
    density,
    heatmap,
    latency,
    resources,
    roofline,
    stages,
    sweep,
    tradeoffs,
    traffic,
)
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart
from inferbench_tasks.analysis.report import tables
from inferbench_tasks.analysis.report.ceilings import Ceilings
from inferbench_tasks.analysis.report.objective import latency_bounds
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.slowdown import sharing_table
from inferbench_tasks.catalogue import Hardware, find_hardware


@dataclass
class Section:
    """``tables``: each {title, head, rows}."""

    title: str
    charts: list[Chart]
    text: str = ""
    tables: list[dict[str, Any]] = field(default_factory=list)
    wide: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For the page."""
        return {"title": self.title, "text": self.text, "tables": self.tables, "wide": self.wide}


def sections(views: Sequence[RunView], ceilings: Ceilings | None = None) -> list[Section]:
    """All that there is to show of these runs; ``ceilings``: of the machine that they ran on, if measured."""
    slo = latency_bounds(views)
    shown = [view for view in views if view.measured]
    limit = f"Charts by run show the first {MAX_RUNS} of {len(shown)} runs." if len(shown) > MAX_RUNS else ""
    maps = heatmap.heat_maps(views)
    found = [
        Section(
            "Latency",
            _drawn(latency.cdf(shown, slo), latency.percentiles(shown, slo), density.density(shown)),
            limit,
        ),
        Section("Heat maps", maps, wide=heatmap.wide(maps)),
        Section(
            "Comparison over the sweep",
            [*_drawn(tradeoffs.latency_throughput(shown, slo)), *sweep.comparison(shown)],
            tables=tradeoffs.pareto_table(shown),
        ),
        Section("Over time", _drawn(latency.course(shown), traffic.traffic(shown))),
        Section(
            "Where the time goes",
            _drawn(stages.pipeline(shown), stages.cold_start(shown)),
            tables.stage_text(shown),
            tables.stage_table(shown),
        ),
        Section("Sharing a device", [], tables=sharing_table(shown)),
        Section("Roofline", _drawn(roofline.roofline(shown, ceilings, sheet_of(shown)))),
        Section("Resources", resources.resources(shown)),
        Section("Energy, CO₂ and cost", [], tables=[*tables.energy_table(shown), *tables.cost_table(shown)]),
        Section("Interference", [], tables=tables.interference_table(shown)),
    ]
    return [section for section in found if section.charts or section.tables]


def sheet_of(views: Sequence[RunView]) -> Hardware | None:
    """The datasheet of the device, if all runs had the same."""
    names = {view.result.device.name for view in views if view.result and view.result.device.name}
    return find_hardware(names.pop()) if len(names) == 1 else None


def _drawn(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]
