"""Our executor on metadata of its own, whose jobs are played: what Celery and the tasks would do is written down.

Everything else is what a scheduler runs: the queue, the policy, leases and answers in PerfDB, Airflow's tables.
"""

from __future__ import annotations

import heapq
import pickle
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from airflow.executors.workloads import ExecuteTask
from airflow.executors.workloads.base import BundleInfo
from airflow.executors.workloads.task import TaskInstanceDTO
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import insert, update

from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.provider.executors.device_celery import DeviceCeleryExecutor
from inferbench_tasks.provider.on_device import leased_task
from inferbench_tasks.provider.queues import HOLD
from inferbench_tasks.provider.weights import BASE
from inferbench_tasks.submission.schema import Submission

#: Jobs of a DAG run.
JOBS = 50


class PlayedExecutor(DeviceCeleryExecutor):
    """A job that is sent runs for its length and ends well."""

    def begin(self, length_s: float) -> None:
        """Start, and let jobs take about so long."""
        self.length_s = length_s
        self.rng = random.Random(7)
        self.ends: list[tuple[float, str, str, str]] = []
        self.sent: dict[tuple[str, str], float] = {}
        self.start()

    def _process_workloads(self, workload_items: Sequence[Any]) -> None:
        now = time.monotonic()
        for workload in workload_items:
            ti = workload.ti
            self.queued_tasks.pop(ti.key, None)
            job = ti.task_id.partition(".")[0]
            self.sent[ti.dag_id, job] = time.time()
            length_s = self.length_s * self.rng.uniform(0.5, 1.5)
            heapq.heappush(self.ends, (now + length_s, ti.dag_id, ti.run_id, job))
        self.set_states([(w.ti.dag_id, w.ti.task_id) for w in workload_items], "running")

    def play(self) -> int:
        """End what is over; how many jobs. It is Airflow's and the workers' part, and is not measured."""
        ended = []
        while self.ends and self.ends[0][0] <= time.monotonic():
            _, dag_id, _, job = heapq.heappop(self.ends)
            ended.append((dag_id, job))
        tasks = [
            (d, f"{job}.{stage}") for d, job in ended for stage in ("serve", "load", "collect", "release")
        ]
        self.set_states(tasks, "success")
        return len(ended)

    def set_states(self, tasks: Sequence[tuple[str, str]], state: str) -> None:
        """Of these (DAG, task)."""
        with create_session() as session:
            for dag_id, task_id in tasks:
                session.execute(
                    update(TaskInstance)
                    .where(TaskInstance.dag_id == dag_id, TaskInstance.task_id == task_id)
                    .values(state=state)
                )


def enter(jobs: int) -> Iterator[ExecuteTask]:
    """Enter DAG runs with the device tasks of so many jobs; each job's first task, as Airflow queues it."""
    from airflow.utils import timezone

    sweep = {"load.seed": list(range(JOBS))}
    plan = compile_plan(
        Submission.model_validate(
            {
                "name": "played",
                "model": {"kind": "zoo", "name": "digits"},
                "load": {"arrivals": {"kind": "poisson", "rate_rps": 10}},
                "sweep": sweep,
            }
        )
    )
    now = timezone.utcnow()
    for number in range(-(-jobs // JOBS)):
        dag_id, rows = f"played-{number:04d}", []
        run = {"dag_id": dag_id, "run_id": "manual__1", "state": "running", "run_type": "manual", "conf": {}}
        run |= {"queued_at": now, "run_after": now, "triggering_user_name": f"login-{number % 100:02d}"}
        for node in plan.nodes:
            leased = leased_task(node, plan)
            if leased is None:
                continue
            row = {
                "id": uuid.uuid4(),
                "task_id": node.id,
                "dag_id": dag_id,
                "run_id": "manual__1",
                "map_index": -1,
            }
            row |= {
                "state": "queued" if node.opens else None,
                "try_number": 1,
                "queue": HOLD,
                "pool": "default_pool",
            }
            row |= {
                "executor_config": leased.config(),
                "priority_weight": BASE,
                "pool_slots": 1,
                "max_tries": 0,
            }
            row |= {"operator": "StageOperator", "hostname": "", "unixname": "", "updated_at": now}
            rows.append(row)
        with create_session() as session:
            session.execute(insert(DagRun).values(**run))
            session.execute(insert(TaskInstance), rows)
        for row in rows:
            if row["state"] == "queued":
                yield workload(row)


def workload(row: dict[str, Any]) -> ExecuteTask:
    """What Airflow's scheduler hands to an executor."""
    config = pickle.loads(pickle.dumps(row["executor_config"]))  # each has its own, as from the database
    ti = TaskInstanceDTO(
        id=row["id"], dag_version_id=uuid.uuid4(), task_id=row["task_id"], dag_id=row["dag_id"],
        run_id=row["run_id"], try_number=1, map_index=-1, pool_slots=1, queue=HOLD,
        priority_weight=row["priority_weight"], executor_config=config,
    )  # fmt: skip
    bundle = BundleInfo(name="dags-folder", version=None)
    return ExecuteTask(ti=ti, dag_rel_path=Path("x.py"), token="", bundle_info=bundle, log_path="")
