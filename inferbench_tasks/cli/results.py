"""``inferbench results``: list, show, export, compare and delete results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, say
from inferbench_tasks.perfdb import comparison, frames
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import results_of

app = typer.Typer(
    no_args_is_help=True,
    help="List, show, export and compare results.\n\n"
    "A QUERY is made of terms that must all hold: model=resnet* backend=triton,onnxruntime batch>=4 since=7d "
    "user=x verdict=valid. (Quote terms with * < > for the shell.) Fields: `inferbench results fields`.",
)
QUERY = typer.Argument(
    None, metavar="[QUERY]", help="Terms such as model=resnet* since=7d.", show_default=False
)
SORT = typer.Option(
    "", "--sort", metavar="FIELDS", help="For instance p99_ms, or -throughput_rps (descending)."
)
RUN = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'.")
RUNS = typer.Argument(..., metavar="RUN", help="Runs, each as in `results show`.")
FILE = typer.Argument(..., metavar="FILE", help="Ends in .csv, .parquet or .json.")
ATTEMPT = typer.Option(None, "--attempt", min=1, help="The attempt; the latest by default.")

_SETTINGS = (
    "run", "created", "model", "format", "backend", "device", "batch", "rate_rps",
)  # fmt: skip


@app.command("list")
def list_(
    query: list[str] = QUERY,
    sort: str = SORT,
    limit: int = typer.Option(50, "--limit", "-n", min=0, help="At most so many; 0 = all."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List results, newest first, with the runs that failed, were cancelled or are running.

    Sorted by a figure, these runs come last.
    """
    parse(query or [])  # a wrong query is refused before anything is started
    with _open() as db:
        rows = frames.rows(db, query or [], sort, limit + 1 if limit else 0)
    rows = first_of(rows, limit)
    emit(rows, output, (*_SETTINGS, *(figure.name for figure in FIGURES.on("list")), "verdict"))


@app.command()
def show(run: str = RUN, attempt: int | None = ATTEMPT, output: OutputFormat = OUTPUT) -> None:
    """Show one result in full; of a run without a result, how its stages went."""
    with _open() as db:
        run_id = db.resolve_run(run)
        results: Any = db.find_results(
            {"run_id": run_id} | ({"attempt": attempt} if attempt else {}), limit=1
        )
        results = results or _of_another_kind(db, run_id, attempt)
        document = results[0].model_dump() if results else None
        if document is None:
            if attempt:
                db.get_result(run_id, attempt)  # says what is missing
            document = db.get_run(run_id).model_dump()
            say(f"Run {run_id} has no result: it is {document['status']}. How it went:")
    if output is OutputFormat.table:
        document["summary"] = {k: v for k, v in document.get("summary", {}).items() if k != "timeseries"}
    emit(document, output)


def _of_another_kind(db: PerfDB, run_id: str, attempt: int | None) -> list[Any]:
    return [result for run in db.find_runs({"_id": run_id}) for result in results_of(db, run, attempt)]


@app.command()
def stages(run: str = RUN, output: OutputFormat = OUTPUT) -> None:
    """Show how the stages of a run went: when, how long, and what failed."""
    with _open() as db:
        document = db.get_run(db.resolve_run(run))
    columns = ("stage", "attempt", "state", "started_at", "duration_s", "pid", "error")
    emit([s.model_dump() for s in document.stages], output, columns)


@app.command()
def export(
    file: Path = FILE,
    query: list[str] = QUERY,
    sort: str = SORT,
    limit: int = typer.Option(0, "--limit", "-n", min=0, help="At most so many; 0 = all."),
    samples: bool = typer.Option(
        False, "--samples", help="The raw samples of ONE run, named by run=ID (.parquet)."
    ),
) -> None:
    """Write results to a file: one line per result (.csv, .parquet) or the whole documents (.json)."""
    conditions = parse(query or [])
    with _open() as db:
        if samples:
            results = db.find_results(conditions.filter, limit=2)
            if len(results) != 1 or results[0].samples is None or file.suffix != ".parquet":
                raise InputError(
                    "--samples writes the raw samples of one result: give run=ID and a .parquet file."
                )
            db.files.save_to(results[0].samples, file)
            say(f"{file}: the raw samples of {results[0].run_id}")
            return
        count = frames.export(db, file, query or [], sort, limit)
    say(f"{file}: {count} result(s)")


@app.command()
def compare(
    runs: list[str] = RUNS,
    output: OutputFormat = OUTPUT,
) -> None:
    """Compare runs: the settings that differ, and each figure with its ratio to the first run's.

    A table has the units of reports and pages (MiB, %), JSON and YAML those that are stored.
    """
    if len(runs) < 2:
        raise InputError("compare needs at least two runs; `inferbench results list` shows them.")
    with _open() as db:
        results = [db.get_result(db.resolve_run(run)) for run in runs]
        sentences = in_turns(db, [result.run_id for result in results])
    for result in results:
        if not result.valid:
            say(f"Warning: {result.run_id} is {result.verdict}; its figures don't count.")
    for sentence in sentences:
        say(sentence)
    rows = comparison.compare(results)
    emit(comparison.shown(rows) if output is OutputFormat.table else rows, output)


def in_turns(db: PerfDB, run_ids: list[str]) -> list[str]:
    """What the pairs of an interleaved sweep say of the configurations of these runs; [] for any other runs."""
    from inferbench_tasks.analysis.report.paired import Blocks
    from inferbench_tasks.analysis.report.paired_advice import against_first
    from inferbench_tasks.analysis.report.runs import blocks_beside, load_runs

    views = load_runs(db, run_ids)
    blocks = Blocks.among([*views, *blocks_beside(db, views)])
    return against_first(blocks, views) if blocks is not None else []


@app.command()
def delete(
    runs: list[str] = RUNS,
    yes: bool = typer.Option(False, "--yes", help="Don't ask."),
) -> None:
    """Delete the results of runs, with their raw samples. The record that they ran stays."""
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks before it deletes; without a terminal, say --yes.")
    with _open() as db:
        for run in runs:
            run_id = db.resolve_run(run)
            if not yes and not typer.confirm(f"Delete the result of {run_id} and its raw samples?", err=True):
                continue
            say(f"{run_id}: {db.delete_result(run_id)} result(s) deleted")


@app.command()
def fields(output: OutputFormat = OUTPUT) -> None:
    """The fields that a query and --sort may name."""
    from inferbench_tasks.perfdb.fields import all_fields

    emit(
        [{"field": f.name, "also": list(f.aliases), "kind": f.kind, "meaning": f.help} for f in all_fields()]
        + [{"field": n, "also": [], "kind": "time", "meaning": f"{m}: an age (7d) or a date (UTC)"}
           for n, m in (("since", "not before"), ("until", "not after, a day with all of it"))],
        output,
    )  # fmt: skip


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
