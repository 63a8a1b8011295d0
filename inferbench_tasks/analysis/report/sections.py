"""The charts and tables of a report, in groups; a group or chart without data is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.analysis.charts import (
    density,
    heatmap,
    latency,
    rates,
    resources,
    roofline,
    round_trips,
    stages,
    sweep,
    tokens,
    tradeoffs,
    traffic,
)
from inferbench_tasks.analysis.charts.style import MAX_RUNS, Chart
from inferbench_tasks.analysis.report import (
    answers,
    client_host,
    devices,
    language,
    layers,
    replicas,
    stacks,
    tables,
)
from inferbench_tasks.analysis.report.objective import latency_bounds
from inferbench_tasks.analysis.report.paired import Blocks
from inferbench_tasks.analysis.report.paired_advice import table as pairs_table
from inferbench_tasks.analysis.report.quiet import quiet_table
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.slowdown import sharing_table
from inferbench_tasks.catalogue import Hardware, find_hardware


@dataclass
class Section:
    """``tables``: each {title, head, rows}, some with {note, numbers, hints, shares}.

    ``picture``: the one of its charts in which all runs are seen at once.
    """

    title: str
    charts: list[Chart]
    text: str = ""
    tables: list[dict[str, Any]] = field(default_factory=list)
    wide: bool = False
    picture: Chart | None = None

    def as_dict(self) -> dict[str, Any]:
        """What the page shows of the section besides its charts."""
        return {"title": self.title, "text": self.text, "tables": self.tables, "wide": self.wide}


def sections(views: Sequence[RunView], ceilings: Ceilings | None = None) -> list[Section]:
    """All that there is to show of these runs; ``ceilings``: of the machine that they ran on, if measured."""
    slo = latency_bounds(views)
    measured = [view for view in views if view.measured]
    limit = (
        f"Charts by run show the first {MAX_RUNS} of {len(measured)} runs."
        if len(measured) > MAX_RUNS
        else ""
    )
    looked_at = [view for view in views if view.measured or view.evaluation or view.trace]
    stacked = stacks.differences(measured)
    maps = heatmap.heat_maps(views)
    faster = devices.speedups_of(measured)
    streaming = language.streams(views)
    of_tokens = tokens.charts(streaming) if streaming else []
    curves = latency.cdf(measured, slo)
    trade = tradeoffs.latency_throughput(measured, slo)
    of_roofs = (measured, ceilings, sheet_of(measured))
    blocks = [
        Section(
            "Latency",
            _present(curves, latency.percentiles(measured, slo), density.density(measured)),
            limit,
            quiet_table(measured),
            picture=curves,
        ),
        Section(
            "Streamed tokens",
            of_tokens,
            language.words(streaming),
            language.table(streaming) if streaming else [],
            picture=next(iter(of_tokens), None),
        ),
        Section("Heat maps", maps, wide=heatmap.wide(maps)),
        Section("Comparison in turns", [], tables=paired_table(views)),
        Section(
            "Comparison over the sweep",
            [*_present(trade), *sweep.comparison(measured)],
            tables=tradeoffs.pareto_table(measured),
            # Two points are no picture: their distributions tell more.
            picture=trade if sum(view.valid for view in measured) >= 3 else None,
        ),
        Section("Devices", devices.charts(faster), devices.words(faster), devices.table(faster)),
        Section("Highest rate", _present(rates.probes(views)), rates.words(views), rates.table(views)),
        Section("Over time", _present(latency.course(measured), traffic.traffic(measured))),
        Section(
            "Where the time goes",
            _present(stages.pipeline(measured), stages.cold_start(measured)),
            tables.stage_text(measured),
            tables.stage_table(measured),
        ),
        Section(
            "The load's host and the network",
            _present(round_trips.network(measured)),
            client_host.words(measured),
            client_host.tables(measured),
        ),
        Section("Replicas", [], replicas.words(measured), replicas.tables(measured)),
        Section("Answers", [], answers.words(looked_at), answers.tables(looked_at)),
        Section("Layers", layers.charts(looked_at), layers.words(looked_at), layers.tables(looked_at)),
        Section("What makes the difference", stacks.charts(stacked), stacks.words(stacked, measured)),
        Section("Sharing a device", [], tables=sharing_table(measured)),
        Section("Roofline", roofline.rooflines(*of_roofs), roofline.not_drawn(*of_roofs)),
        Section("Resources", resources.resources(measured)),
        Section(
            "Energy, CO₂ and cost", [], tables=[*tables.energy_table(measured), *tables.cost_table(measured)]
        ),
        Section("Interference", [], tables=tables.interference_table(measured)),
    ]
    return [section for section in blocks if section.charts or section.tables or section.text]


def paired_table(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """The configurations of an interleaved sweep against its first, block by block; [] for any other runs."""
    blocks = Blocks.among(views)
    return pairs_table(blocks) if blocks is not None else []


def sheet_of(views: Sequence[RunView]) -> Hardware | None:
    """The datasheet of the device, if all runs had the same."""
    names = {view.result.device.name for view in views if view.result and view.result.device.name}
    return find_hardware(names.pop()) if len(names) == 1 else None


def _present(*charts: Chart | None) -> list[Chart]:
    return [chart for chart in charts if chart is not None]
