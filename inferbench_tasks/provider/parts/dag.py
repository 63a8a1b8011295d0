"""The DAGs of parts of large submissions: of those under way, and of those begun last."""

from __future__ import annotations

import logging
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from inferbench_tasks import settings
from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.loader import BrokenSubmission, _knows_no_devices
from inferbench_tasks.provider.parts.shelf import PartShelf
from inferbench_tasks.provider.render import render_part

log = logging.getLogger(__name__)


def load_parts(data_dir: Path | None = None) -> dict[str, DAG]:
    """By DAG id; only the one in question at a task's run."""
    shelf = PartShelf(data_dir or settings.data_dir())
    asked = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    for dag_id in shelf.recent() if asked is None else [asked]:
        try:
            if (dag := part_dag(shelf, dag_id)) is not None:
                dags[dag_id] = dag
        except Exception as error:
            log.exception("a part can't be read dag_id=%s", dag_id)
            if asked is None:
                dags[f"broken {dag_id}"] = BrokenSubmission(shelf.path(dag_id), f"{error}"[:4000])
    return dags


def part_dag(shelf: PartShelf, dag_id: str) -> DAG | None:
    """None where no part has that DAG. InputError for a file that is none of this part's."""
    placed, part = shelf.get(dag_id), PartName.of(dag_id)
    if placed is None or part is None:
        return None
    jobs = placed.expanded()
    if [job.index for job in jobs] != list(range(part.first, part.last + 1)):
        raise InputError(f"{shelf.path(dag_id)} has other jobs than {part.first} to {part.last}")
    return render_part(
        placed.submission,
        jobs,
        base_dir=Path(placed.base_dir),
        one_at_a_time=_knows_no_devices(),
        part=part,
    )
