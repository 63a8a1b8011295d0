"""A workload as it is sent in a system that listens for other hosts: under the leader's signature."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.executors.workloads import ExecuteTask
from airflow.providers.celery.executors.celery_executor_utils import ExceptionWithTraceback

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.signing import PUBLIC, SigningKey

#: Key, workload, queue, team.
Item = tuple[Any, Any, str, str | None]


@dataclass(frozen=True)
class _Id:
    external_executor_id: str


@dataclass(frozen=True)
class SignedWorkload:
    """What Airflow's ``send_workload_to_executor`` uses of a workload: Celery's id, and the JSON that is sent."""

    ti: _Id
    text: str

    def model_dump_json(self) -> str:
        """What the worker gets."""
        return self.text


def signing_key() -> SigningKey | None:
    """The system's; None unless it listens. InputError where its workers were told another."""
    if not (public := os.environ.get(PUBLIC)):
        return None
    key = SigningKey.of(Path(os.environ["AIRFLOW_HOME"]))
    if key.public != public:
        raise InputError(
            f"{PUBLIC} is not the key of the system in {os.environ['AIRFLOW_HOME']}: start it again."
        )
    return key


def send(key: SigningKey, items: Sequence[Item], send_all: Callable[[list[Item]], list[Any]]) -> list[Any]:
    """Sign tasks and have them sent; what is no task has the result that sending it failed.

    ``items``: (key of the workload, workload, queue, team), as Airflow's executor has them.
    """
    tasks, refused = [], []
    for name, workload, queue, team in items:
        if isinstance(workload, ExecuteTask):
            task_id = workload.ti.external_executor_id or str(uuid.uuid4())
            text = key.sign(workload.model_dump_json(), queue, task_id)
            tasks.append((name, SignedWorkload(_Id(task_id), text), queue, team))
        else:
            reason = f"{workload.type}: in a system that listens for other hosts, workers execute tasks alone"
            refused.append((name, workload, ExceptionWithTraceback(InputError(reason), "")))
    return [*(send_all(tasks) if tasks else []), *refused]
