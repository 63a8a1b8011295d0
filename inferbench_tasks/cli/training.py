"""``inferbench training``: what came out of runs of ``kind: training``, and what others published."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.page import as_yaml
from inferbench_tasks.cli.training_fleet import fleet
from inferbench_tasks.cli.training_scaling import scaling
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, safe, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.imports import diagnose
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.listing import SORTS, comparison_rows, listed, result_of, row
from inferbench_tasks.training.result import TrainingResult

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
    output: OutputFormat = OUTPUT,
) -> None:
    """List results, newest first: samples/s without instruments, the step and its phases, ms."""
    with _open() as db:
        results = listed(db, {"cluster": cluster}, sort, limit)
    emit([row(result) for result in results], output)


@app.command()
def show(run: str = RUN, attempt: int | None = ATTEMPT, output: OutputFormat = OUTPUT) -> None:
    """Show one result in full; ``results stages`` tells how its stages went."""
    with _open() as db:
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
    what = {"chrome": "event(s)", "jade": "row(s)"}.get(export.form_of(file), "step(s)")
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

    content = imported.read(files)
    with _open() as db:
        document = store.keep(db, content)
    if output is OutputFormat.table:
        say(f"{document.import_id}: {len(content.rows)} row(s), {len(content.logs)} log(s)")
    _emit_causes(document.import_id, diagnose(content), output)


@app.command("diagnose")
def diagnose_(
    run: str = typer.Argument(
        ..., metavar="RUN", help="A run's or an import's id, the unique start of one, or 'latest' of both."
    ),
    write: Path | None = typer.Option(
        None, "--write", metavar="FILE", help="Write the remedy as a submission that can be run."
    ),
    verify: bool = typer.Option(
        False, "--verify", help="Run the remedy here, and set what was predicted beside what is measured."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Say what holds a training up: by which figures, what it costs of a step, and what would mend it."""
    from inferbench_tasks.training.diagnosis import measured, raw
    from inferbench_tasks.training.imported import store

    with _open() as db:
        subject = store.run_or_import(db, run)
        if not isinstance(subject, TrainingResult):
            if write or verify:
                raise InputError("an import has no submission of its own that could be changed and run")
            _emit_causes(subject.import_id, diagnose(subject.content), output)
            return
        diagnosis = measured.diagnose(subject, raw.ranks_of(db, subject))
    cause = diagnosis.remedied
    submission = measured.changed_job(subject, cause) if cause else None
    if write is not None:
        if submission is None:
            raise InputError(f"nothing to write: no field of the submission mends it. {diagnosis.sentence}")
        write.write_text(as_yaml(submission))
    if output is OutputFormat.table:
        typer.echo(safe(f"{diagnosis.run_id}: {diagnosis.sentence}") + "\n")
        _say_causes(diagnosis.causes)
    if submission is not None and output is OutputFormat.table:
        typer.echo(as_yaml(submission))
    truth = _verify(subject, diagnosis, submission) if verify and submission is not None else None
    if output is not OutputFormat.table:
        document = diagnosis.model_dump(mode="json") | {"submission": submission}
        emit(document | ({"verified": truth} if verify else {}), output)
    elif truth is not None:
        emit([truth], output)


def _emit_causes(import_id: str, causes: Sequence[Cause], output: OutputFormat) -> None:
    if output is not OutputFormat.table:
        emit({"import_id": import_id, "causes": [cause.model_dump() for cause in causes]}, output)
        return
    if not causes:
        typer.echo("No rule has anything to say of it.")
    _say_causes(causes)


def _say_causes(causes: Sequence[Cause]) -> None:
    for number, cause in enumerate(causes, 1):
        cost = f" It costs {cause.cost_s:.3g} s of a step." if cause.cost_s else ""
        gain = f" (about {cause.gain_s:.3g} s of a step)" if cause.gain_s else ""
        remedy = [f"   -> {cause.remedy}{gain}"] if cause.remedy else []
        evidence = [f"     {line}" for line in cause.evidence]
        lines = [f"{number}. [{cause.kind}] {cause.sentence}{cost}", *evidence, *remedy]
        typer.echo("\n".join(map(safe, lines)) + "\n")


def _verify(result: TrainingResult, diagnosis: Diagnosis, submission: Mapping[str, Any]) -> dict[str, Any]:
    """Run the remedy without Airflow, then its step beside the predicted one."""
    from inferbench_tasks.training.diagnosis import verification

    folder = settings.writable(settings.data_dir()) / "remedies"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.run_id}.yaml"
    path.write_text(as_yaml(dict(submission)))
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(path), "--inline", "-o", "json"]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False
    )  # its progress goes on to stderr
    rows = json.loads(ended.stdout) if ended.stdout.strip() else []
    if not rows:
        raise StageError(
            f"the remedy of {result.run_id} has no result; `inferbench run {path} --inline` tells why"
        )
    with _open() as db:
        return verification.beside(diagnosis, result, result_of(db, rows[0]["run_id"]))


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
