"""The results of a run in the terminal: a table, the verdict on each run, what to use, and where the report is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.columns import unsteady_notes
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.quiet import quiet_sentence
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.verdict import DISTURBED, VALID
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
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
            print(f"{safe(view.label)}: {safe(view.said)}")  # noqa: T201 - results go to stdout
        if (sentence := quiet_sentence(view)) is not None:
            print(f"{safe(view.label)}: {safe(sentence)}")  # noqa: T201
    for note in unsteady_notes(views):
        print(safe(note))  # noqa: T201
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
    """A run's main figures under their names, as they are stored."""
    errors = view.figure("errors") or {}
    before, after = _figures()
    return {
        "run_id": view.run_id,
        "job": view.label,
        **{figure.name: view.value(figure) for figure in before},
        "errors": sum(errors.values()) if view.figure("requests") else None,
        "slo_met": view.figure("slo.met"),
        **{figure.name: view.value(figure) for figure in after},
        "verdict": view.said,
    }


#: The figures from this one on stand behind the errors and the objective.
_AFTER = "error_ratio"
#: Columns that are no figure, with their heads.
_OTHERS = {"job": "job", "errors": "errors", "slo_met": "SLO", "verdict": "verdict"}
_WIDE = 110


def _figures() -> tuple[list[Figure], list[Figure]]:
    """Those that a terminal shows: what was answered how fast, and what it took."""
    figures = [figure for figure in FIGURES.values() if {"terminal", "wide"} & {*figure.views}]
    before = set(list(FIGURES)[: list(FIGURES).index(_AFTER)])
    return [f for f in figures if f.name in before], [f for f in figures if f.name not in before]


def heading(column: str) -> str:
    """A column's head on two lines of about the same length: ``cold start, ms`` as ``cold`` and ``start ms``."""
    words = column.replace(",", "").replace("/", " /").split()
    halves = [(" ".join(words[:place]), " ".join(words[place:])) for place in range(1, len(words))]
    return "\n".join(min(halves, key=lambda half: max(map(len, half)))) if halves else column


def _table(views: Sequence[RunView]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Into a pipe or a file: wide enough for every column.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    rows = [row(view) | {"verdict": view.state, "slo_met": objective_word(view)} for view in views]
    # A column in which nothing was measured, or nothing else than in its neighbour, says nothing.
    columns = [name for name in rows[0] if name != "run_id" and any(r[name] is not None for r in rows)]
    # What is left out where the terminal is narrow is in the report.
    drop = {figure.name for figure in FIGURES.on("wide")} if console.width < _WIDE else set()
    if all(r["throughput_samples_per_s"] == r["throughput_rps"] for r in rows):
        drop.add("throughput_samples_per_s")
    if not any(r["errors"] for r in rows):
        drop.add("errors")
    columns = [name for name in columns if name not in drop]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        is_text = name in ("job", "verdict")
        table.add_column(
            _OTHERS.get(name) or heading(FIGURES[name].column),
            justify="left" if is_text else "right",
            no_wrap=name != "job",
            overflow="fold",
            min_width=16 if name == "job" else None,
        )
    for r in rows:
        cells = [_cell(name, r[name], bound=r["verdict"] == DISTURBED) for name in columns]
        table.add_row(*(Text(safe(c)) for c in cells), style="" if r["verdict"] == VALID.kind else "yellow")
    console.print(table)


def _cell(name: str, value: Any, *, bound: bool) -> str:
    """A figure's text; ``bound``: of a disturbed run, which bounds what a quiet machine gives."""
    if value is None:
        return "-"
    sign = FIGURES[name].bound_sign if bound and name in FIGURES else ""
    return sign + _text(name, value)


def _text(name: str, value: Any) -> str:
    if name in FIGURES and FIGURES[name].in_percent:
        return f"{value:.1%}"
    if isinstance(value, float):
        number = FIGURES[name].displayed(value) if name in FIGURES else value
        return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return str(value)
