"""``inferbench replay``: a run again, what differs around it, and whether its figures hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.replay import environment_differences
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.pipelines.replay import require_files, result_of, submission_of
from inferbench_tasks.running.conclude import conclude
from inferbench_tasks.running.inline import run_inline
from inferbench_tasks.running.invocation import Invocation, Order

app = typer.Typer()


@app.command()
def replay(
    run: str = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run the same job again on this machine, and compare environment and figures with the first time.

    Exit code 0 only if the new run is valid and every figure agrees.
    """
    data_dir = settings.writable(settings.data_dir())
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        then = result_of(db, db.resolve_run(run))
        submission, base_dir = submission_of(then), Path.cwd()
        pipeline = pipeline_of(submission)
        require_files(then.run_id, submission, base_dir)
        pipeline.agreement(then, then)  # of what has no figures it says so before anything runs
        if not then.valid:
            say(f"Warning: {then.run_id} is {then.verdict}; its figures don't count.")
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
        say(f"{now.run_id}: {now.verdict}; {_in_words(figures)}.")
    else:
        emit(
            {
                "then": then.run_id, "now": now.run_id, "verdict": str(now.verdict), "agrees": agrees,
                "figures": figures, "environment": differences,
            },
            output,
        )  # fmt: skip
    if not now.valid or not agrees:
        raise typer.Exit(1)


def _in_words(figures: Sequence[Mapping[str, Any]]) -> str:
    """Whether the figures agree; those of which nobody can tell are named."""
    unknown = [row["figure"] for row in figures if row["agrees"] is None]
    if any(row["agrees"] is False for row in figures) or not figures:
        return "the figures do not all agree"
    if unknown:
        return f"whether the figures agree can't be told of {', '.join(unknown)}"
    return "the figures agree"
