"""A remedy of a training, run on this machine: ``inferbench training diagnose --verify``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.page import as_yaml
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.stamps import changed_ns, links_on_the_way, with_all_below
from inferbench_tasks.submission.files import missing_files
from inferbench_tasks.training.diagnosis import verification, verified
from inferbench_tasks.training.diagnosis.measured import Diagnosis
from inferbench_tasks.training.diagnosis.verified import Verified
from inferbench_tasks.training.listing import result_of
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import job_of


def files_folder(result: TrainingResult, data_dir: Path) -> Path | None:
    """The folder that holds the files which a run's job names: its submission's, else this one; None of a job that
    names none.

    InputError where neither has them all, or one without a digest was changed since the run: the remedy would be
    measured on other data. (Those with a digest are compared by it where the remedy is read.)
    """
    job = job_of(result)
    named = list(job.named_files()) if job else []
    if job is None or not named:
        return None
    placed = Invocation.base_dir_of(data_dir, result.invocation_id) if result.invocation_id else None
    folders = list(dict.fromkeys(folder for folder in (placed, Path.cwd()) if folder is not None))
    folder = next((folder for folder in folders if not any(missing_files(job, folder))), None)
    if folder is None:
        raise InputError(
            f"{result.run_id} used {', '.join(file.path for file in named)}, which is not in "
            f"{' and not in '.join(map(str, folders))}: verify it in the folder that has it",
            field="--verify",
        )
    # Files are dated by the clock of their host, the result by PerfDB's.
    made_s = result.created_at.timestamp() + (result.clock.ahead_s if result.clock else 0.0)
    for file in named:
        changed = None if file.counts else _changed_since(folder / file.path, made_s)
        if changed is not None:
            raise InputError(
                f"{changed} was changed since {result.run_id}: a remedy measured on other data tells nothing of it. "
                "Run the submission again, and verify that run",
                field="--verify",
            )
    return folder


def verify(
    result: TrainingResult, diagnosis: Diagnosis, submission: Mapping[str, Any], files_in: Path | None
) -> Verified:
    """Run the remedy without Airflow, then its step beside the predicted one, which is kept."""
    folder = settings.writable(settings.data_dir()) / "remedies"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.run_id}.yaml"
    path.write_text(as_yaml(dict(submission)))
    files = () if files_in is None else ("--files-in", str(files_in))
    command = ("run", str(path), "--inline", *files, "-o", "json")
    ended = subprocess.run(
        [sys.executable, "-m", "inferbench_tasks.cli.main", *command],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )  # its progress goes on to stderr
    rows = json.loads(ended.stdout) if ended.stdout.strip() else []
    if not rows:
        raise StageError(
            f"the remedy of {result.run_id} has no result; `inferbench {' '.join(command[:-2])}` tells why"
        )
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        truth = verification.beside(diagnosis, result, result_of(db, rows[0]["run_id"]))
        return verified.keep(db, truth)


def _changed_since(path: Path, moment_s: float) -> Path | None:
    """A file or folder at or below ``path``, or a link on the way to it, that was changed after that moment (Unix
    time); None without one.
    """
    places = (*links_on_the_way(path), *with_all_below(path))
    return next((of for of in places if changed_ns(of) > moment_s * 1e9), None)
