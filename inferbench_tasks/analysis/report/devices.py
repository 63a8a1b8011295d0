"""The report's section on devices: where a model ran on several, how much more each serves within one's latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts import devices as drawn
from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.devices.alike import device_of, in_order, thing_of
from inferbench_tasks.analysis.devices.speedup import Speedups, speedups
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.systems.found import one_at_a_time


def speedups_of(views: Sequence[RunView]) -> Speedups:
    """Over the first CPU that has a run of one user with one sample, else over the first such device, of the runs that
    can stand beside others; nothing where they are on one device, or none is such.
    """
    results = sorted(
        (view.result for view in views if view.result), key=lambda result: result.created_at, reverse=True
    )
    documents = [document for result in results if thing_of(document := result.model_dump()) is not None]
    references = in_order(device_of(each) for each in documents if one_at_a_time(each))
    if not references or len({device_of(each) for each in documents}) < 2:
        return Speedups([])
    return speedups(documents, references[0].words)


def charts(found: Speedups) -> list[Chart]:
    """The bars."""
    chart = drawn.speedups(found.rows)
    return [chart] if chart is not None else []


def words(found: Speedups) -> str:
    """What the table is of, and what is left out."""
    if not found.rows:
        return " ".join(f"{note}." for note in found.notes)
    references = "; ".join(sorted({row["reference"] for row in found.rows}))
    bound = (
        f"Each device at the best of its configurations within the latency of {references} (one user with one "
        f"sample at a time, {found.rows[0]['statistic']})."
    )
    return " ".join([bound, *(f"{note}." for note in found.notes)])


def table(found: Speedups) -> list[dict[str, Any]]:
    """A row for each model and device."""
    if not found.rows:
        return []
    head = ["model", "device", "bound, ms", "speed-up (95%)", "samples/s", "latency, ms", "configuration"]
    return [
        {
            "title": "Speed-up over a reference device",
            "head": head,
            "rows": [_line(row) for row in found.rows],
            "numbers": [2, 3, 4, 5],
        }
    ]


def _line(row: dict[str, Any]) -> list[str]:
    faster = number(row["speedup"]) if row["speedup"] is not None or not row["ci95"] else "possibly"
    if row["ci95"]:
        low, high = row["ci95"]
        faster = f"{faster} ({number(low)}–{number(high)})"
    return [
        f"{row['model']}, {row['precision']}",
        row["device"],
        number(row["bound_ms"]),
        faster,
        number(row["throughput_samples_per_s"]),
        number(row["latency_ms"]),
        row["configuration"] or row["reason"],
    ]
