"""``inferbench training``: what came out of runs of ``kind: training``, and what others published."""

from __future__ import annotations

from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.training_diagnose import diagnose, emit_causes
from inferbench_tasks.cli.training_fleet import fleet
from inferbench_tasks.cli.training_predict import predict
from inferbench_tasks.cli.training_scaling import scaling
from inferbench_tasks.cli.training_trainers import trainers
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis import imports
from inferbench_tasks.training.listing import SORTS, comparison_rows, listed, result_of, row

app = typer.Typer(no_args_is_help=True, help="Results of training runs; BenchmarkJade's tables.")
RUN = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'.")
ATTEMPT = typer.Option(None, "--attempt", min=1, help="The attempt; the latest by default.")


@app.command("list")
def list_(
    limit: int = typer.Option(50, "--limit", "-n", min=0, help="At most so many; 0 = all."),
    sort: str = typer.Option(
        "", "--sort", help=f"{', '.join(SORTS)}; -NAME: the largest first. By a figure: valid runs only."
    ),
    cluster: str = typer.Option("", "--cluster", help="Of the cluster of this name only."),
    imported: bool = typer.Option(False, "--imported", help="The imports instead, which are no results."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List results, newest first: samples/s without instruments, the step and its phases, ms."""
    if imported:
        _list_imports(limit, sort, cluster, output)
        return
    with _open() as db:
        results = listed(db, {"cluster": cluster}, sort, limit + 1 if limit else 0)
    rows = [row(result) for result in first_of(results, limit)]
    if output is OutputFormat.table:  # a column that no row fills only takes room
        filled = {name for of in rows for name, value in of.items() if value is not None}
        rows = [{name: value for name, value in of.items() if name in filled} for of in rows]
    emit(rows, output)


def _list_imports(limit: int, sort: str, cluster: str, output: OutputFormat) -> None:
    from inferbench_tasks.training.imported import store

    if sort or cluster:
        given = "--sort" if sort else "--cluster"
        raise InputError("imports are listed by their time, all of them", field=given)
    with _open() as db:
        rows = store.listed(db, limit + 1 if limit else 0)
    emit(first_of(rows, limit), output)


@app.command()
def show(run: str = RUN, attempt: int | None = ATTEMPT, output: OutputFormat = OUTPUT) -> None:
    """Show one result in full, or an import (``list --imported``); ``results stages`` tells how its stages went."""
    from inferbench_tasks.training.imported import store

    with _open() as db:
        if run.startswith(store.PREFIX):
            emit(store.find(db, run).model_dump(mode="json"), output)
            return
        result = result_of(db, run, attempt)
    emit(result.model_dump(mode="json"), output)


@app.command("compare")
def compare_(
    first: str = typer.Argument(
        ..., metavar="RUN", help="The run, or the cluster, that the other is set beside."
    ),
    second: str = typer.Argument(..., metavar="OTHER", help="The other run, or cluster."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Set two valid runs of the same work beside each other: OTHER by RUN, phase by phase, with intervals.

    Of two clusters: their newest valid runs of the same job.
    """
    from inferbench_tasks.training import clusters
    from inferbench_tasks.training.comparison import compare

    with _open() as db:
        pair = clusters.pair(db, first, second) or (result_of(db, first), result_of(db, second))
        comparison = compare(*pair)
    rows = comparison_rows(comparison)
    emit(rows if output is OutputFormat.table else {"figures": rows, "notes": comparison.notes}, output)
    if output is OutputFormat.table:
        for note in comparison.notes:
            say(note)
        if any(compared.verdict == "not told apart" for compared in comparison.figures):
            say("What is not told apart may differ by as much as its interval; more train.rounds narrow it.")


app.command()(scaling)
app.command()(fleet)
app.command()(diagnose)
app.command()(predict)
app.command()(trainers)


@app.command("export")
def export_(
    file: Path = typer.Argument(
        ...,
        metavar="FILE",
        help="What to write, by its ending: .json (a timeline for Perfetto), .md (Jade's table), "
        ".csv or .parquet (the raw steps).",
    ),
    runs: list[str] = typer.Argument(
        ..., metavar="RUN...", help="A run's id or 'latest'; of .md as many as you like."
    ),
) -> None:
    """Write a training for other tools: Perfetto or chrome://tracing, a table of BenchmarkJade's, a data frame."""
    from inferbench_tasks.training import export

    export.form_of(file)
    with _open() as db:
        results = [result_of(db, run) for run in runs]
        count = export.write(db, results, file)
    what = {"chrome": "span(s)", "jade": "row(s)"}.get(export.form_of(file), "step(s)")
    say(f"{file}: {count} {what}")


@app.command("import")
def import_(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="BenchmarkJade's Markdown tables and logs, in any order."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Keep BenchmarkJade's tables and logs, apart from what was measured here, and say what they tell.

    Table and logs together tell more: the loader's warning, the devices that there really were.
    """
    from inferbench_tasks.training.imported import files as imported
    from inferbench_tasks.training.imported import store

    content = imported.read(files, say)
    with _open() as db:
        document = store.keep(db, content)
    if output is OutputFormat.table:
        say(f"{document.import_id}: {len(content.rows)} row(s), {len(content.logs)} log(s)")
    emit_causes(document.import_id, imports.diagnose(content), output)


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
