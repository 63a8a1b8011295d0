"""A stored training for other tools: a timeline for Perfetto and Chrome, BenchmarkJade's table, the raw steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.forms import chrome
from inferbench_tasks.training import step_spans
from inferbench_tasks.training.jade_table import jade_table
from inferbench_tasks.training.result import TrainingResult

Form = Literal["chrome", "parquet", "csv", "jade"]
FORMS: dict[str, tuple[str, ...]] = {
    "chrome": (".json",), "parquet": (".parquet",), "csv": (".csv",), "jade": (".md",),
}  # fmt: skip


def form_of(path: Path) -> str:
    """The form that a file's ending asks for; InputError for any other ending."""
    for form, endings in FORMS.items():
        if path.suffix.lower() in endings:
            return form
    known = ", ".join(f"{ending} ({form})" for form, (ending,) in FORMS.items())
    raise InputError(f"{path}: its ending says what is written; known: {known}", field="FILE")


def write(db: PerfDB, results: Sequence[TrainingResult], path: Path) -> int:
    """Write the file; how many lines or spans it has is for people.

    InputError for another ending, several runs in a form that has one, or a run without what the form needs. The file
    is whole or not at all.
    """
    form = form_of(path)
    if form != "jade" and len(results) != 1:
        raise InputError(f"{path}: {form} holds one run; got {len(results)}", field="RUN")
    if form == "jade":
        content = jade_table(results).encode()
        count = len(results)
    else:
        (result,) = results
        content, count = _timeline(db, result) if form == "chrome" else _raw(form, _steps(db, result))
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
    return count


def _steps(db: PerfDB, result: TrainingResult) -> Any:
    import pyarrow
    import pyarrow.parquet

    if result.samples is None:
        raise InputError(f"{result.run_id} has no raw steps", field="RUN")
    return pyarrow.parquet.read_table(pyarrow.BufferReader(db.files.get(result.samples)))


def _timeline(db: PerfDB, result: TrainingResult) -> tuple[bytes, int]:
    """Chrome's form of its spans, the same as `inferbench trace export` and REST give; and how many spans."""
    table = step_spans.table(db, result)
    return chrome.content(table, step_spans.about(result)), table.num_rows


def _raw(form: str, table: Any) -> tuple[bytes, int]:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    if form == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, sink)
    else:
        pyarrow.parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes(), table.num_rows
