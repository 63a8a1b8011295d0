"""The results of a run in the terminal: a table, the verdict on each run, what to use, and where the report is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report.advice import advise
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.output import OutputFormat, emit, safe, say
from inferbench_tasks.perfdb.documents import ResultDocument


def show_results(results: Sequence[ResultDocument], report: Path | None, output: OutputFormat) -> None:
    """Print them on stdout; with ``-o json`` and ``yaml`` nothing but the data stands there."""
    views = views_of(results)
    if output is not OutputFormat.table:
        emit([row(view) | {"report": str(report) if report else None} for view in views], output)
        return
    if not views:
        say("No run has a result.")
        return
    _table(views)
    for view in views:
        if not view.valid:
            print(f"{safe(view.label)}: {safe(view.verdict)}")  # noqa: T201 - results go to stdout
    print(safe(advise(views).text))  # noqa: T201
    if report is not None:
        print(f"report    {report}")  # noqa: T201


def views_of(results: Sequence[ResultDocument]) -> list[RunView]:
    """Views without a database: figures only, no raw records."""
    views = [
        RunView(
            run_id=result.run_id,
            job=result.provenance.model_dump().get("job") or {},
            verdict=result.verdict,
            result=result,
            run=None,
        )
        for result in results
    ]
    name_by_difference(views)
    return views


def row(view: RunView) -> dict[str, Any]:
    """A run's main figures under the field's names."""
    cold = view.figure("cold_start_ms.total_ms")
    rss = view.figure("resources.server.rss_bytes.max")
    return {
        "run_id": view.run_id,
        "job": view.label,
        "p50_ms": view.figure("e2e_latency_ms.p50"),
        "p99_ms": view.figure("e2e_latency_ms.p99"),
        "throughput_rps": view.figure("throughput_rps"),
        "samples_per_s": view.figure("throughput_samples_per_s"),
        "errors": sum(view.figure("errors").values()) if view.figure("requests") else None,
        "slo_met": view.figure("slo.met"),
        "cpu_cores": view.figure("resources.server.cpu_cores.mean"),
        "rss_mib": rss / 2**20 if rss else None,
        "accuracy_ratio": view.figure("accuracy_ratio"),
        "cold_start_ms": cold,
        "verdict": view.verdict,
    }


_COLUMNS = {
    "job": "job", "p50_ms": "p50\nms", "p99_ms": "p99\nms", "throughput_rps": "requests\n/s",
    "samples_per_s": "samples\n/s", "errors": "errors", "slo_met": "SLO", "cpu_cores": "CPU\ncores",
    "rss_mib": "RSS\nMiB", "accuracy_ratio": "accuracy", "cold_start_ms": "cold\nstart ms", "verdict": "verdict",
}  # fmt: skip
#: Left out where the terminal is narrow; they are in the report.
_WIDE_ONLY = ("rss_mib", "cold_start_ms")
_WIDE = 110


def _table(views: Sequence[RunView]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Into a pipe or a file: wide enough for every column.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    rows = [row(view) for view in views]
    # A column in which nothing was measured, or nothing else than in its neighbour, says nothing.
    columns = [name for name in _COLUMNS if any(r[name] is not None for r in rows)]
    drop = set(_WIDE_ONLY) if console.width < _WIDE else set()
    if all(r["samples_per_s"] == r["throughput_rps"] for r in rows):
        drop.add("samples_per_s")
    if not any(r["errors"] for r in rows):
        drop.add("errors")
    columns = [name for name in columns if name not in drop]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        is_text = name in ("job", "verdict")
        table.add_column(
            _COLUMNS[name],
            justify="left" if is_text else "right",
            no_wrap=name != "job",
            overflow="fold",
            min_width=16 if name == "job" else None,
        )
    for r in rows:
        verdict = r["verdict"].partition(":")[0]
        cells = [_cell(name, r[name]) if name != "verdict" else verdict for name in columns]
        table.add_row(*(Text(safe(c)) for c in cells), style="" if verdict == "valid" else "yellow")
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "met" if value else "missed"
    if name == "accuracy_ratio":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
