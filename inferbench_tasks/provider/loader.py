"""The submissions folder as DAGs: each YAML its own, a broken one its own import error.

One that asks for ``systems`` has no jobs before these are chosen, which is done when it is started: it becomes a DAG
that submits it (``submit.dag.by_file``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from airflow.configuration import conf
from airflow.sdk import DAG, get_parsing_context

from inferbench_tasks import settings
from inferbench_tasks.abilities import InstalledAbilities
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.render import render
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.named_systems import form_alone
from inferbench_tasks.submission.reader import read_submission


class BrokenSubmission(DAG):
    """Stands for a YAML that does not validate.

    Airflow keeps import errors by file, and all our DAGs come from one file: an exception there would
    hide the good ones. It serialises each DAG by itself, though, and files a failure under that DAG's
    own path; so this one fails there, with the submission's errors and under the YAML's path.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self._path = str(path)
        self._problem = problem
        super().__init__(dag_id="broken." + re.sub(r"[^A-Za-z0-9_.-]", "-", path.name), schedule=None)

    @property
    def relative_fileloc(self) -> str:
        """The YAML's path, whatever the importer would have it be."""
        return self._path

    @relative_fileloc.setter
    def relative_fileloc(self, value: str | None) -> None:
        """The importer sets the loader's path here."""

    def get_serialized_fields(self) -> NoReturn:  # type: ignore[override]  # it needs the problem
        """Called when Airflow serialises the DAG."""
        raise InputError(self._problem)


def load_submissions(
    folder: Path | None = None, by_file: Callable[[SubmissionBase, str], DAG] | None = None
) -> dict[str, DAG]:
    """The DAGs of a folder, by DAG id; only the one in question when Airflow runs a task.

    ``by_file`` makes that of a submission whose systems are chosen when it is started, of it and its name in the
    folder; there is none without.
    """
    folder = folder or submissions_dir()
    abilities = InstalledAbilities(form_alone=True)
    dag_id = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    path_by_name: dict[str, Path] = {}
    for path in _files(folder, dag_id):
        try:
            submission = read_submission(path, abilities)
            if first := path_by_name.get(submission.name):
                raise InputError(
                    f"{path}: name: {submission.name!r} is taken by {first}; a DAG's name is its own"
                )
        except InputError as error:
            if dag_id is None:
                dags[f"broken {path}"] = BrokenSubmission(path, str(error))
            continue
        path_by_name[submission.name] = path
        if dag_id not in (None, submission.name):
            continue
        if form_alone(submission):
            if by_file is not None:
                name = path.relative_to(folder).with_suffix("").as_posix()
                dags[submission.name] = by_file(submission, name)
        else:
            dags[submission.name] = render(
                submission, base_dir=path.parent, one_at_a_time=_knows_no_devices()
            )
    return dags


def _files(folder: Path, dag_id: str | None) -> list[Path]:
    """The YAML files; for one DAG those that hold its name, since each task of a job reads them before it starts."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".yaml", ".yml"))
    if dag_id is None:
        return files
    return [path for path in files if dag_id.encode() in path.read_bytes()] or files


def submissions_dir() -> Path:
    """``INFERBENCH_SUBMISSIONS_DIR``, else ``configs/submissions`` beside the DAGs folder."""
    if folder := os.environ.get(settings.SUBMISSIONS_DIR):
        return Path(folder)
    return dags_dir().parent / "configs" / "submissions"


def dags_dir() -> Path:
    """Where Airflow finds the DAG files."""
    return Path(conf.get("core", "dags_folder"))


def _knows_no_devices() -> bool:
    executors: Any = conf.get("core", "executor")
    return "inferbench_tasks" not in str(executors)
