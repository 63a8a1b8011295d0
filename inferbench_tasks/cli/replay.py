"""``inferbench replay``: a run again, what differs around it, and whether its figures hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.replay import environment_differences, lock_differences
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.lock import planned
from inferbench_tasks.output import OUTPUT, OutputFormat, cell, emit, say
from inferbench_tasks.perfdb.documents import ResultBase
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.pipelines.replay import require_files, result_of, submission_of
from inferbench_tasks.running.cluster_abilities import other_hosts, shortages_here
from inferbench_tasks.running.conclude import conclude
from inferbench_tasks.running.inline import run_inline
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import expand

app = typer.Typer()


@app.command()
def replay(
    run: str = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'."),
    locked: bool = typer.Option(
        False, "--locked", help="Don't run where the lock is known to differ: exit code 1."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run the same job again on this machine, and compare environment and figures with the first time.

    First the locks are compared: each version, hash and digest that is known before a run.
    Exit code 0 only if the new run is valid and every figure agrees.
    """
    data_dir = settings.writable(settings.data_dir())
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        then = result_of(db, db.resolve_run(run))
        submission, base_dir = submission_of(then), Path.cwd()
        pipeline = pipeline_of(submission)
        require_files(then.run_id, submission, base_dir)
        require_this_machine(then.run_id, submission)
        pipeline.agreement(then, then)  # of what has no figures it says so before anything runs
        if not then.valid:
            say(f"Warning: {then.run_id} is {then.verdict}; its figures don't count.")
        before = _locks_before(then, submission)
        if locked and (before is None or before):
            say("Nothing was run.")
            raise typer.Exit(1)
        invocation = Invocation.new(data_dir, f"replay-{submission.name}")
        invocation.place(Order(submission=submission, base_dir=str(base_dir), data_dir=str(data_dir)))
        say(f"running {then.run_id} again as {invocation.id}")
        run_inline(invocation)
        now = pipeline.again(then, conclude(invocation, db, cancelled=False, say=say))
        if now is None:
            say("The run left no result.")
            raise typer.Exit(1)
    differences = environment_differences(
        then, now, (pipeline.surroundings(then), pipeline.surroundings(now))
    )
    locks = lock_differences(then, now.extensions.get("lock", {}))
    figures = pipeline.agreement(then, now)
    agrees = bool(figures) and all(row["agrees"] for row in figures)
    if output is OutputFormat.table:
        emit(figures, output)
        say(
            f"{len(differences)} difference(s) in the environment."
            if differences
            else "The environment is the same."
        )
        if differences:
            emit(differences, output)
        if locks:
            say(f"{len(locks)} difference(s) in the lock.")
            emit(locks, output)
        say(f"{now.run_id}: {now.verdict}; {_in_words(figures)}.")
    else:
        emit(
            {
                "then": then.run_id, "now": now.run_id, "verdict": str(now.verdict), "agrees": agrees,
                "figures": figures, "lock": locks, "environment": differences,
            },
            output,
        )  # fmt: skip
    if not now.valid or not agrees:
        raise typer.Exit(1)


def require_this_machine(run_id: str, submission: SubmissionBase) -> None:
    """InputError where a run can't be run again in this process: it needs other hosts, or more than is here."""
    for job in expand(submission):
        for finding in (*other_hosts(job.spec, "replay"), *shortages_here(job.spec)):
            raise InputError(f"{run_id} can't be run again here: {finding.message}", field=finding.fields[0])


def _locks_before(then: ResultBase, submission: SubmissionBase) -> list[dict[str, Any]] | None:
    """What is known to differ before anything runs, told; None where the first run has no lock."""
    spec = expand(submission)[0].spec
    now = planned(spec) if isinstance(spec, JobSpec) else {}
    rows = lock_differences(then, now, before=True)
    if rows is None:
        say(f"{then.run_id} has no lock: it is no serving run, or one of before results had any.")
        return None
    say(f"{len(rows)} difference(s) in the lock." if rows else "The lock is the same so far.")
    for row in rows:
        say(f"  {row['field']}: {cell(row['then'])} then, {cell(row['now'])} now")
    return rows


def _in_words(figures: Sequence[Mapping[str, Any]]) -> str:
    """Whether the figures agree; those of which nobody can tell are named."""
    unknown = [row["figure"] for row in figures if row["agrees"] is None]
    if any(row["agrees"] is False for row in figures) or not figures:
        return "the figures do not all agree"
    if unknown:
        return f"whether the figures agree can't be told of {', '.join(unknown)}"
    return "the figures agree"
