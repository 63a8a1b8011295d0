"""``inferbench validate``: every error of every file at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.running.cluster_abilities import (
    ClusterAbilities,
    not_for_run,
    of_cluster_here,
    shortages_here,
)
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.digest import digest_of_jobs
from inferbench_tasks.submission.named_systems import form_alone
from inferbench_tasks.submission.reader import read_with_jobs
from inferbench_tasks.submission.sweep import Job

app = typer.Typer()

OF_FORM = (
    "systems: its form alone was checked, for no worker has registered a device here; which device it is, and with "
    "all: true how many jobs there are, is decided where it is submitted"
)


@app.command()
def validate(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Submissions: YAML files, or folders of them."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Check submissions; start nothing.

    Says what is wrong, on which line and field, and what is allowed: all problems of all files at once,
    on stderr. Files that are fine are named on stdout with their number of jobs. Exit code 2 if any is
    not. With -o json or yaml everything is on stdout.
    """
    checked = [check_file(path) for argument in files for path in submissions(argument)]
    if output is OutputFormat.table:
        for entry in checked:
            _print(entry)
    else:
        emit(checked, output)
    if not all(entry["ok"] for entry in checked):
        raise typer.Exit(2)


def submissions(path: Path) -> list[Path]:
    """The file itself, or every YAML below a folder. InputError where there is none."""
    if not path.is_dir():
        return [path]
    paths = sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml"))
    if not paths:
        raise InputError(f"{path} has no submission in it: no .yaml or .yml file")
    return paths


def check_file(path: Path) -> dict[str, Any]:
    """One file's verdict: ``ok``, and ``problems`` or what the submission amounts to."""
    cluster = replace(of_cluster_here(settings.data_dir()), form_alone=True)
    try:
        submission, jobs = read_with_jobs(path, cluster)
    except SubmissionError as error:
        return {"file": str(path), "ok": False, "problems": [p.as_dict() for p in error.problems]}
    of_form = form_alone(submission)
    here = [OF_FORM] if of_form else [*_shortages(jobs, cluster), *not_for_run(jobs, cluster)]
    return {
        "file": str(path),
        "ok": True,
        "name": submission.name,
        "jobs": len(jobs),
        "digest": None if of_form else digest_of_jobs(job.digest for job in jobs),
        "warnings": [*warnings(jobs), *here],
        "problems": [],
    }


def warnings(jobs: list[Job[JobBase]]) -> list[str]:
    """What will run, but can't answer what is asked; each once, with the first job that it is true of."""
    messages: dict[str, str] = {}
    for job in jobs:
        for what, message in pipeline_of(job.spec).warnings(job.spec).items():
            messages.setdefault(what, f"{job.job_id}: {message}")
    return list(messages.values())


def _shortages(jobs: list[Job[JobBase]], cluster: ClusterAbilities) -> list[str]:
    """What this machine has too little of, where no device is registered: so that it can only be run here."""
    messages = {
        finding.message: f"{job.job_id}: {finding.fields[0]}: {finding.message}: `inferbench run` refuses it"
        for job in jobs
        for finding in shortages_here(job.spec)
    }
    return [] if not messages or cluster.devices() else list(messages.values())


def _print(entry: dict[str, Any]) -> None:
    if entry["ok"]:
        jobs = entry["jobs"]
        typer.echo(f"{entry['file']}: ok: {entry['name']}, {jobs:,} job{'s' if jobs > 1 else ''}")
        for text in entry["warnings"]:
            say(f"{entry['file']}: warning: {text}")
        return
    for problem in entry["problems"]:
        place = entry["file"] if problem["line"] is None else f"{entry['file']}:{problem['line']}"
        field = f"{problem['field']}: " if problem["field"] else ""
        say(f"{place}: {field}{problem['message']}")
