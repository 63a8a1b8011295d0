"""``inferbench submit``: hand a submission to a running system."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.abilities import InstalledAbilities
from inferbench_tasks.client import InferBench
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.verdict import DISTURBED, VALID, split
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.provider.system.config import passwords
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.running.cluster_abilities import of_cluster_here
from inferbench_tasks.submission.reader import read_submission

app = typer.Typer()

PASSWORD = "INFERBENCH_PASSWORD"  # noqa: S105 - the name of a variable
POLL_S = 1.0
#: What a run may be without --strict.
_GOOD = {VALID.kind, DISTURBED}


@app.command()
def submit(
    file: Path = typer.Argument(..., metavar="FILE", help="The submission, a YAML file."),
    wait: bool = typer.Option(
        False, "--wait", help="Show progress until it has ended; exit 0 if all is valid."
    ),
    strict: bool = typer.Option(
        True, "--strict/--no-strict", help="With --wait: whether a disturbed run makes the exit code 1."
    ),
    url: str | None = typer.Option(None, help="Of the system [the local one of the data directory]."),
    user: str = typer.Option(
        "admin", help=f"Login; its password comes from {PASSWORD} where --url is given."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run a submission on a running system (``inferbench up``, or a team's): it takes its turn on a device."""
    here = InstalledAbilities(form_alone=True) if url else of_cluster_here(settings.data_dir())
    read_submission(file, here)  # every error with its line, before anything is sent
    with client_of(url, user) as bench:
        started = bench.submit(file.read_text())
        say(f"submitted {started['run']}")
        if not wait:
            emit(started, output)
            return
        progress, url = _watch(bench, started["run"]), bench.url
    rows = [{"run": run, "verdict": verdict} for run, verdict in progress["verdicts"].items()]
    emit(rows, output)
    if progress.get("report"):
        say(f"report    {url}{progress['report']}")
    kinds = {split(row["verdict"])[0] for row in rows}
    if progress["state"] != "success" or not rows or not kinds <= ({VALID.kind} if strict else _GOOD):
        raise typer.Exit(1)


def client_of(url: str | None, user: str) -> InferBench:
    """Of the system at that URL, else of the local one; InputError where there is none, or no password."""
    if url:
        if PASSWORD not in os.environ:
            raise InputError(f"--url needs the password of {user!r} in {PASSWORD}.")
        return InferBench(url, user, os.environ[PASSWORD])
    system = LocalSystem(settings.data_dir())
    if not system.running():
        raise InputError(
            f"No system runs in {system.data_dir}: `inferbench up` starts one, or name one with --url. "
            f"`inferbench run FILE` needs none."
        )
    return InferBench(system.url(), user, passwords(system.home)[user])


def _watch(bench: InferBench, run: str) -> dict[str, Any]:
    """Tell each change of a job's state, and why it waits, until the end."""
    last_texts: dict[str, str] = {}
    while True:
        progress = bench.progress(run)
        for job, verdict in progress.get("verdicts", {}).items():
            if last_texts.get(job) != verdict:
                last_texts[job] = verdict
                say(f"{job}  {verdict}")
        if progress["state"] in ("success", "failed"):
            return progress
        for waiting in bench.cluster()["waiting"]:
            key, why = JobKey.parse(waiting["job"]), waiting["why"]
            if key.dag_run_id == run.rpartition("/")[2] and last_texts.get(waiting["job"]) != why:
                last_texts[waiting["job"]] = why
                say(f"{key.dag_id} waits: {why}")
        time.sleep(POLL_S)
