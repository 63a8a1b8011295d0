"""``inferbench trace``: where the time of requests went, of runs with a ``trace`` block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer(
    no_args_is_help=True, help="Where the time of requests went: list, layers, export, sources."
)
RUN = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'.")


@app.command("list")
def list_(
    limit: int = typer.Option(50, "--limit", "-n", min=1, help="At most so many, the newest first."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List the runs that were traced: spans, levels, defects, or why there is no trace."""
    with _open() as db:
        found = db.find_results(
            {"extensions.trace": {"$exists": True}}, sort=[("created_at", -1)], limit=limit
        )
    emit([_row(result) for result in found], output)


@app.command()
def layers(run: str = RUN, output: OutputFormat = OUTPUT) -> None:
    """The layers of a run in their order: type, median time, share of all layers."""
    with _open() as db:
        trace = _trace(_result(db, run))
    document = trace.get("layers")
    if not document:
        raise InputError(f"Nothing is known of the layers of {run}; its levels: {', '.join(trace['levels'])}")
    total = sum(layer["ms"] for layer in document["layers"])
    rows = [
        {
            "place": layer["order"],
            "layer": layer["name"],
            "type": layer["type"],
            "ms": layer["ms"],
            "share_ratio": layer["ms"] / total if total else None,
            "output_bytes": layer["output_bytes"],
        }
        for layer in document["layers"]
    ]
    emit(rows, output)


@app.command()
def export(
    run: str = RUN,
    path: Path = typer.Argument(
        ..., metavar="FILE", help=".json (Perfetto, Chrome), .otlp.json, or .parquet."
    ),
) -> None:
    """Write a run's spans for another tool: the ending says which."""
    from inferbench_tasks.analysis.report.runs import stored_table
    from inferbench_tasks.tracing.export import write

    with _open() as db:
        result = _result(db, run)
        table = stored_table(db, _trace(result)["file"])
    count = write(table, path, {"inferbench.run": result.run_id, "inferbench.verdict": str(result.verdict)})
    say(f"{count:,} spans written to {path}")


@app.command()
def sources(output: OutputFormat = OUTPUT) -> None:
    """What tells of the layers here, of which backends, and why the others do not."""
    from inferbench_tasks.servers.sources.absent import ABSENT, sources_of_ours
    from inferbench_tasks.servers.sources.base import SOURCES

    rows: list[dict[str, Any]] = list(sources_of_ours())
    for kind in SOURCES:
        source = SOURCES.load(kind)
        why = source.unavailable()
        about = {"source": kind, "level": "layer", "of": ", ".join(source.engines), "here": why is None}
        rows.append({**about, "tells": source.tells, "why_not": why or ""})
    emit([*rows, *(source.as_row() for source in ABSENT)], output)


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())


def _result(db: PerfDB, run: str) -> ResultDocument:
    return db.get_result(db.resolve_run(run))


def _trace(result: ResultDocument) -> dict[str, Any]:
    """What was traced; InputError for a run that was not."""
    trace: dict[str, Any] | None = result.extensions.get("trace")
    if trace is None:
        raise InputError(
            f"{result.run_id} was not traced; its submission has no block `trace: {{}}`", field="RUN"
        )
    if "problem" in trace:
        raise InputError(f"{result.run_id} has no trace: {trace['problem']}", field="RUN")
    return trace


def _row(result: ResultDocument) -> dict[str, Any]:
    trace = result.extensions["trace"]
    found = trace.get("layers") or {}
    return {
        "run": result.run_id,
        "model": result.model.name,
        "backend": result.backend.kind,
        "requests": trace.get("requests"),
        "spans": trace.get("spans"),
        "levels": ", ".join(trace.get("levels", [])),
        "defects": trace.get("defects"),
        "framework_ms": found.get("framework_ms"),
        "explained_ratio": found.get("explained_ratio"),
        "problem": trace.get("problem", "").splitlines()[0] if trace.get("problem") else "",
    }
