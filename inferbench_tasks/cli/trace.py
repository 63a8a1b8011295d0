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
from inferbench_tasks.tracing.queries import row_of, trace_of

app = typer.Typer(
    no_args_is_help=True,
    help="Where the time of requests went: list, layers, show, compare, export, sources.",
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
    emit([row_of(result) for result in found], output)


@app.command()
def layers(run: str = RUN, output: OutputFormat = OUTPUT) -> None:
    """The layers of a run in their order: type, median time, share of all layers."""
    with _open() as db:
        trace = trace_of(_result(db, run))
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
def show(
    run: str = RUN,
    name: str = typer.Option("", "--analysis", "-a", help="The table of one analysis, by its name."),
    output: OutputFormat = OUTPUT,
) -> None:
    """The analyses across the stack of a run: what each shows in a sentence, or what is missing; or one's table."""
    from inferbench_tasks.analysis.stack.base import ANALYSES
    from inferbench_tasks.analysis.stack.document import analysed
    from inferbench_tasks.analysis.stack.stored import subject_of

    if name:
        ANALYSES.load(name, "--analysis")
    with _open() as db:
        document = analysed(subject_of(db, _result(db, run)))
    if not name:
        emit(document if output is not OutputFormat.table else _sentences(document), output)
        return
    (table,) = (each for each in document["analyses"] if each["name"] == name)
    if table["missing"]:
        raise InputError(f"{name} of {document['run']} needs {table['missing']}", field="--analysis")
    if output is OutputFormat.table:
        emit(table["rows"], output)
        say(f"{table['sentence']}\n{table['formula']}")
    else:
        emit(table, output)


@app.command()
def compare(
    left: str = typer.Argument(..., metavar="RUN", help="A traced run."),
    right: str = typer.Argument(..., metavar="RUN", help="Another one, which is set against it."),
    output: OutputFormat = OUTPUT,
) -> None:
    """What makes the difference between two traced runs: layers by sequence, kind and shape, adding up to it."""
    from inferbench_tasks.analysis.stack.document import compared, labelled
    from inferbench_tasks.analysis.stack.stored import subject_of

    with _open() as db:
        subjects = labelled([subject_of(db, _result(db, run), batches=False) for run in (left, right)])
    document = compared(*subjects)
    if output is OutputFormat.table:
        emit(document["rows"], output)
        say("\n".join(document["sentences"]))
    else:
        emit(document, output)


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
        table = stored_table(db, trace_of(result)["file"])
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


def _sentences(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        {
            "xsp": each["number"],
            "analysis": each["name"],
            "shows": each["sentence"] or f"missing: {each['missing']}",
        }
        for each in document["analyses"]
    ]
    return rows + [
        {"xsp": each["number"], "analysis": "", "shows": f"missing: {each['missing']}"}
        for each in document["not_there"]
    ]
