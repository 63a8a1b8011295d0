"""Which job a task belongs to, and the job as the policy sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import job_of, pipeline_of
from inferbench_tasks.plan.overrides import overridden
from inferbench_tasks.provider.queues import CONFIG, NIGHTLY
from inferbench_tasks.regression.night import DEFAULT_PAIRS
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.scheduling.estimator import Estimator, hard_limit_s
from inferbench_tasks.scheduling.model import QueuedJob

#: Three times a short estimate would stop a healthy job whose model loads slowly for once.
LEAST_LIMIT_S = 180.0
#: So many finished runs teach a new scheduler its estimates.
LEARN_FROM = 2000


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task that runs on a device: a stage of one job of one DAG run."""

    dag_id: str
    dag_run_id: str
    job_index: int
    stage: str

    @property
    def job(self) -> str:
        """The job's name for the scheduler."""
        return str(JobKey(self.dag_id, self.dag_run_id, self.job_index))

    @property
    def is_night(self) -> bool:
        """A night is one job of many runs, each with its own id: it has none of its own in PerfDB."""
        return self.dag_id.startswith(NIGHTLY)

    @property
    def perfdb_run(self) -> str:
        """The job's run in PerfDB."""
        invocation = Invocation.of_dag_run(settings.data_dir(), self.dag_id, self.dag_run_id)
        return invocation.run_id(self.job_index)

    def task_id(self, stage: str) -> str:
        """The task of a stage of the same job."""
        return f"job-{self.job_index:03d}.{stage}"


def ref_of(ti: Any) -> TaskRef | None:
    """None for a task that needs no device."""
    config = (ti.executor_config or {}).get(CONFIG)
    return TaskRef(ti.dag_id, ti.run_id, config["job_index"], config["stage"]) if config else None


def ref_of_job(job: str, stage: str = "serve") -> TaskRef:
    """The other way round, from the job's name."""
    key = JobKey.parse(job)
    return TaskRef(key.dag_id, key.dag_run_id, key.job_index, stage)


def queued_job(
    ref: TaskRef,
    document: Mapping[str, Any],
    conf: Mapping[str, Any],
    submit_s: float,
    estimator: Estimator,
    cluster: Cluster,
) -> QueuedJob:
    """The job for the policy. ``document``: the job's own; ``conf``: what its trigger changed of it."""
    changed = overridden({"job": dict(document)}, conf)
    job = changed["job"]
    declared_s = pipeline_of(job).length_s(job_of(job))
    # A night's runs are of the same job as a run by day, but are some seconds of it.
    kind = f"{NIGHTLY}{changed['job_id']}" if ref.is_night else changed["job_id"]
    if ref.is_night and conf.get("pairs"):
        declared_s *= conf["pairs"] / DEFAULT_PAIRS
    est_s = estimator.estimate_s(kind, declared_s)
    limit_s = max(LEAST_LIMIT_S, hard_limit_s(est_s))
    if ref.is_night:
        # How many runs it takes shows only as it goes (invalid ones, confirmations), and each has limits of its own.
        limit_s = max(limit_s, job["deadline_s"])
    attempt, avoid = cluster.history(ref.job)
    return QueuedJob(
        job_id=ref.job,
        tenant=job["user"],
        spec_hash=kind,
        submit_s=submit_s,
        est_s=est_s,
        limit_s=limit_s,
        device_types=device_types(DeviceSpec(job["serve"]["device"]), cluster),
        priority=job["priority"],
        deadline_s=None if job["deadline_s"] is None else submit_s + job["deadline_s"],
        attempt=attempt,
        avoid=avoid,
    )


def device_types(device: DeviceSpec, cluster: Cluster) -> frozenset[str]:
    """``cpu``; ``gpu:<type>``: that type; ``gpu``: every type of GPU that is registered."""
    if device.kind == "gpu" and not device.detail:
        found = {d.device_type for d in cluster.devices() if d.device_type != "cpu"}
        return frozenset(found or {"gpu"})
    return frozenset({device.detail or device.kind})


def learnt(db: PerfDB) -> Estimator:
    """Estimates from the runs that PerfDB holds, oldest first."""
    estimator = Estimator()
    for run in reversed(db.find_runs({"status": "done"}, limit=LEARN_FROM)):
        if (seconds := leased_s(run)) is not None:
            estimator.observe(run.job_id, seconds)
    return estimator


def leased_s(run: RunDocument) -> float | None:
    """How long a run held its device: from the start of its last ``serve`` to the end of its ``release``."""
    starts = [s.started_at for s in run.stages if s.stage == "serve"]
    ends = [s.ended_at for s in run.stages if s.stage == "release" and s.ended_at]
    seconds = (max(ends) - max(starts)).total_seconds() if starts and ends else 0.0
    return seconds if seconds > 0 else None
