"""Before a submission is sent: the schema that an editor completes by, what would be done, when, and for how long."""

from __future__ import annotations

import time
from functools import lru_cache
from threading import Lock
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.state import ClusterState, cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import PIPELINES, pipeline_of
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.provider.api.access import Store, User
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.api.submissions import REFUSED, Request, resolved_jobs
from inferbench_tasks.provider.executors.jobs import device_types, learnt
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.submission.reference import json_schema

router = APIRouter(tags=["submissions"])
#: Fields whose values are names of what is installed here: an editor offers them.
_NAMES = {
    ("ServeSpec", "backend"): INSTALLED.backends,
    ("ConvertSpec", "format"): INSTALLED.formats,
    ("ZooModel", "name"): INSTALLED.zoo,
    ("ProcessorSpec", "kind"): INSTALLED.processors,
    ("LoadSpec", "network"): INSTALLED.networks,
}
#: Of a plan that is shown: the jobs that are told one by one.
MOST_POINTS = 100
#: Reading thousands of runs takes a second, and an editor asks after each word.
LEARN_AGAIN_S = 300.0
_learnt: dict[str, tuple[float, Estimator]] = {}
_learning = Lock()


class PlannedStage(BaseModel):
    """A stage of each job, or of the whole submission; ``leased``: it runs while the job holds its device."""

    name: str
    leased: bool
    of_submission: bool


class Place(BaseModel):
    """What stands before it on the devices of its type. Seconds are expectations, not promises: the scheduler's order
    also goes by each login's fair share.
    """

    device_types: list[str]
    #: Present and healthy.
    devices: int
    #: Waiting jobs of the same or a higher priority.
    jobs_before: int
    #: Until a device is expected to be free for its first job; None where there is no device.
    wait_s: float | None


class Planned(BaseModel):
    """``expected_s``: of all jobs together, on their devices, as the scheduler expects it: from what the submission
    says and what earlier runs of the same jobs took; ``known_jobs``: how many of them have such runs.
    """

    name: str
    kind: str
    jobs: int
    points: list[dict[str, Any]]
    #: Of each of these points, on its device.
    points_s: list[float]
    stages: list[PlannedStage]
    device: str
    devices_of_a_job: int
    expected_s: float
    known_jobs: int
    #: With all the devices that there are; None where there is none.
    on_these_devices_s: float | None
    place: Place | None


@router.get("/schema/{kind}", summary="The JSON schema of a kind of submission")
def schema(kind: str) -> dict[str, Any]:
    """As editors complete and check by; 404 for a kind that nothing here has."""
    if kind not in PIPELINES:
        raise not_found(f"there is no kind {kind!r} of submission; there are: {', '.join(PIPELINES)}")
    return _schema(kind)


@lru_cache(maxsize=8)
def _schema(kind: str) -> dict[str, Any]:
    made = json_schema(PIPELINES.load(kind).submission)
    for (model, field), names in _NAMES.items():
        if model in made["$defs"]:
            made["$defs"][model]["properties"][field]["examples"] = list(names)
    made["properties"].pop("block", None)  # set where a submission becomes jobs, by nobody who writes one
    return made


@router.post("/submissions/plan", summary="What a submission would do; nothing is started", responses=REFUSED)
def plan(request: Request, user: User, db: Store) -> Planned:
    """Validates like ``/submissions/validate``; the stages, the expected seconds and the place in the queue."""
    resolved, jobs = resolved_jobs(request, user, db)
    submission = resolved.submission
    pipeline = pipeline_of(submission)
    nodes = compile_plan(submission).nodes
    own = {node.stage: node for node in nodes if node.job_index is not None}
    stages = [
        PlannedStage(name=name, leased=node.lease is not None, of_submission=False)
        for name, node in own.items()
    ]
    stages += [
        PlannedStage(name=node.stage, leased=False, of_submission=True)
        for node in nodes
        if node.job_index is None
    ]
    estimator = _estimator(db)
    job_s = [estimator.estimate_s(job.job_id, pipeline.length_s(job.spec)) for job in jobs]
    expected_s = sum(job_s)
    needed = sorted({str(job.spec.needed_device()) for job in jobs})
    place = _place(
        cluster_state(db), device_types(jobs[0].spec.needed_device(), Cluster(db)), submission.priority
    )
    at_once = max(job.spec.needed_devices() for job in jobs)
    able = place.devices // at_once if place else 0
    return Planned(
        name=submission.name,
        kind=submission.kind,
        jobs=len(jobs),
        points=[job.point for job in jobs[:MOST_POINTS]],
        points_s=[round(one_s, 1) for one_s in job_s[:MOST_POINTS]],
        stages=stages,
        device=" or ".join(needed),
        devices_of_a_job=at_once,
        expected_s=round(expected_s, 1),
        known_jobs=sum(estimator.knows(job.job_id) for job in jobs),
        on_these_devices_s=round(expected_s / able, 1) if able and len(needed) == 1 else None,
        place=place,
    )


def _estimator(db: PerfDB) -> Estimator:
    """What the scheduler learns from the newest runs when it starts; learnt again after a while."""
    with _learning:
        at, estimator = _learnt.get(db.uri, (0.0, None))
        if estimator is None or time.monotonic() - at >= LEARN_AGAIN_S:
            estimator = learnt(db)
            _learnt[db.uri] = (time.monotonic(), estimator)
    return estimator


def _place(cluster: ClusterState, types: frozenset[str], priority: int) -> Place | None:
    """None where the cluster has no devices of ours: another executor takes jobs in turns."""
    if not cluster.devices:
        return None
    usable = [
        d for d in cluster.devices if d.device_type in types and d.state in ("free", "busy", "starting")
    ]
    before = [w for w in cluster.waiting if types & set(w.device_types) and w.priority >= priority]
    wait_s = None
    if usable:
        left_s = sorted(max(0.0, d.expected_left_s or 0.0) for d in usable)
        # What waits is taken by whichever device is free first.
        for job in before:
            left_s[0] += job.expected_s * job.devices
            left_s.sort()
        wait_s = round(left_s[0], 1)
    return Place(device_types=sorted(types), devices=len(usable), jobs_before=len(before), wait_s=wait_s)
