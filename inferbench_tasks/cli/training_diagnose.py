"""``inferbench training diagnose``: what holds a training up, what would mend it, and whether it did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.page import as_yaml, number
from inferbench_tasks.cli import training_verify
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, safe
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis import imports
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.result import TrainingResult


def diagnose(
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
    from inferbench_tasks.training.diagnosis import measured, verification
    from inferbench_tasks.training.diagnosis.of_run import diagnosis_of
    from inferbench_tasks.training.imported import store

    with _open() as db:
        subject = store.run_or_import(db, run)
        if not isinstance(subject, TrainingResult):
            if write or verify:
                raise InputError("an import has no submission of its own that could be changed and run")
            emit_causes(subject.import_id, imports.diagnose(subject.content), output)
            return
        diagnosis = diagnosis_of(db, subject)
    cause = diagnosis.remedied
    submission = measured.changed_job(subject, cause) if cause else None
    folder: Path | None = None
    if verify and submission is not None:
        verification.require_here(subject)
        folder = training_verify.files_folder(subject, settings.data_dir())
    if write is not None:
        if submission is None:
            raise InputError(f"nothing to write: no field of the submission mends it. {diagnosis.sentence}")
        write.write_text(as_yaml(submission))
    if output is OutputFormat.table:
        typer.echo(safe(f"{diagnosis.run_id}: {diagnosis.sentence}") + "\n")
        _say_causes(diagnosis.causes)
        if diagnosis.stalls_sentence:
            typer.echo(safe(diagnosis.stalls_sentence) + "\n")
        for verified in diagnosis.verified:
            typer.echo(safe(said(verified)))
    if submission is not None and output is OutputFormat.table:
        typer.echo(as_yaml(submission))
    truth = None
    if verify and submission is not None:
        truth = training_verify.verify(subject, diagnosis, submission, folder)
    if output is not OutputFormat.table:
        if truth is not None:
            diagnosis = diagnosis.model_copy(update={"verified": [truth, *diagnosis.verified]})
        emit(diagnosis.model_dump(mode="json") | {"submission": submission}, output)
    elif truth is not None:
        typer.echo(safe(said(truth)))
    elif verify:
        typer.echo("There is nothing to verify: no field of the submission mends it.")


def said(verified: Verified) -> str:
    """A remedy that was run, in a sentence."""
    changes = ", ".join(f"{name}: {value}" for name, value in verified.changes.items())
    predicted = "nothing"
    if verified.predicted_ms is not None:
        predicted = (
            f"a step of {number(verified.predicted_ms)} ms (gain {number(verified.predicted_gain_ms)})"
        )
    if verified.measured_ms is None:
        measured = f"not measured: {verified.unmeasured}"
    else:
        measured = (
            f"measured {number(verified.measured_ms)} ms (gain {number(verified.measured_gain_ms)}); predicted by "
            f"measured {number(verified.predicted_by_measured)}"
        )
    when = f" {verified.created_at:%Y-%m-%d}" if verified.created_at else ""
    return f"Verified{when} by {verified.remedied} ({changes}): predicted {predicted}, {measured}."


def emit_causes(import_id: str, causes: Sequence[Cause], output: OutputFormat) -> None:
    """What rules say of an import."""
    if output is not OutputFormat.table:
        emit({"import_id": import_id, "causes": [cause.model_dump() for cause in causes]}, output)
        return
    if not causes:
        typer.echo("No rule has anything to say of it.")
    _say_causes(causes)


def _say_causes(causes: Sequence[Cause]) -> None:
    for place, cause in enumerate(causes, 1):
        at_most = "at most " if cause.at_most else ""
        cost = f" It costs {at_most}{cause.cost_s:.3g} s of a step." if cause.cost_s else ""
        gain = f" (about {cause.gain_s:.3g} s of a step)" if cause.gain_s else ""
        remedy = [f"   -> {cause.remedy}{gain}"] if cause.remedy else []
        evidence = [f"     {line}" for line in cause.evidence]
        lines = [f"{place}. [{cause.kind}] {cause.sentence}{cost}", *evidence, *remedy]
        typer.echo("\n".join(map(safe, lines)) + "\n")


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
