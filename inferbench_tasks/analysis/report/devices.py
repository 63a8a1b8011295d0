"""The report's section on devices: where a model ran on several, how much more each serves within one's latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts import devices as drawn
from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.devices.alike import device_of, in_order
from inferbench_tasks.analysis.devices.speedup import Speedups, speedups
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView


def speedups_of(views: Sequence[RunView]) -> Speedups:
    """Over the first CPU among the runs' devices, else the first device; nothing where all ran on one."""
    results = sorted(
        (view.result for view in views if view.result), key=lambda result: result.created_at, reverse=True
    )
    documents = [result.model_dump() for result in results]
    devices = in_order(device_of(document) for document in documents)
    return speedups(documents, devices[0].words) if len(devices) > 1 else Speedups([])


def charts(found: Speedups) -> list[Chart]:
    """The bars."""
    chart = drawn.speedups(found.rows)
    return [chart] if chart is not None else []


def words(found: Speedups) -> str:
    """What the table is of, and what is left out."""
    if not found.rows:
        return " ".join(f"{note}." for note in found.notes)
    first = found.rows[0]
    bound = (
        f"Each device at the best of its configurations within the latency of {first['reference']} (one user with one "
        f"sample at a time, {first['statistic']})."
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
    faster = number(row["speedup"])
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
