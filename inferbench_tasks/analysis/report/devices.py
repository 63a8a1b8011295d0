"""The report's section on devices: where a model ran on several, how much more each serves within one's latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.charts import devices as drawn
from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.devices import names
from inferbench_tasks.analysis.devices.alike import device_of, thing_of
from inferbench_tasks.analysis.devices.speedup import Speedups, speedups
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.systems.found import one_at_a_time


def speedups_of(views: Sequence[RunView]) -> Speedups:
    """Each model over a reference of its own (``speedup.own_reference``), of the runs that can stand beside others;
    nothing where they are on one device, or nobody asked any one sample at a time.
    """
    results = sorted(
        (view.result for view in views if view.result), key=lambda result: result.created_at, reverse=True
    )
    documents = [document for result in results if thing_of(document := result.model_dump()) is not None]
    if len({device_of(each) for each in documents}) < 2 or not any(map(one_at_a_time, documents)):
        return Speedups([])
    return speedups(documents, None)


def charts(found: Speedups) -> list[Chart]:
    """The bars."""
    chart = drawn.speedups(found.rows)
    return [chart] if chart is not None else []


def words(found: Speedups) -> str:
    """What the table is of, and what is left out."""
    if not found.rows:
        return " ".join(f"{note}." for note in found.notes)
    references = sorted({row["reference"] for row in found.rows})
    of = references[0] if len(references) == 1 else f"its model's reference ({'; '.join(references)})"
    bound = (
        f"Each device at the best of its configurations within the latency of {of} (one user with one sample at a "
        f"time, {found.rows[0]['statistic']})."
    )
    return " ".join([bound, *(f"{note}." for note in found.notes)])


def table(found: Speedups) -> list[dict[str, Any]]:
    """A row for each model and device."""
    if not found.rows:
        return []
    several = len({row["reference"] for row in found.rows}) > 1
    head = ["model", "device", "bound, ms", "speed-up (95%)", "samples/s", "latency, ms", "configuration"]
    return [
        {
            "title": "Speed-up over a reference device",
            "head": head,
            "rows": [
                _line(name, row, several=several)
                for name, row in zip(names.of_rows(found.rows), found.rows, strict=True)
            ],
            "numbers": [2, 3, 4, 5],
        }
    ]


def _line(name: str, row: dict[str, Any], *, several: bool) -> list[str]:
    faster = number(row["speedup"]) if row["speedup"] is not None or not row["ci95"] else "possibly"
    if row["ci95"]:
        low, high = row["ci95"]
        faster = f"{faster} ({number(low)}–{number(high)})"
    return [
        name,
        row["device"]
        + (f" over {row['reference']}" if several and row["device"] != row["reference"] else ""),
        number(row["bound_ms"]),
        faster,
        number(row["throughput_samples_per_s"]),
        number(row["latency_ms"]),
        row["configuration"] or row["reason"],
    ]
