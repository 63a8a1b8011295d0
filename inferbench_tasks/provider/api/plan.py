"""Before a submission is sent: the schema that an editor completes by, what would be done, when, and for how long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import PIPELINES, Pipeline, pipeline_of
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.provider.api.access import Store, User
from inferbench_tasks.provider.api.place import Place, place_of, together_s, worst
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.api.submissions import REFUSED, Request, resolved_jobs
from inferbench_tasks.provider.executors.jobs import device_types, learnt
from inferbench_tasks.running.cluster_abilities import of_cluster
from inferbench_tasks.running.known_systems import SystemRow, system_rows
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.stages.fixed_batch import remarks
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
    """A stage of jobs, or of the whole submission; ``leased``: it runs while the job holds its device."""

    name: str
    #: How many jobs go through it; 0: it is the submission's, once.
    jobs: int
    leased: bool
    of_submission: bool


class Planned(BaseModel):
    """``expected_s``: of all jobs together, on their devices, as the scheduler expects it: from what the submission
    says and what earlier runs of the same jobs took; ``known_jobs``: how many of them have such runs. ``stages``: in
    the pipeline's order; not every job need go through each.
    """

    name: str
    kind: str
    jobs: int
    points: list[dict[str, Any]]
    #: Of each of these points, on its device.
    points_s: list[float]
    stages: list[PlannedStage]
    #: Of each of these points: the stages that its job goes through.
    points_stages: list[list[str]]
    device: str
    devices_of_a_job: int
    #: Of so many other hosts a job holds a device each, at once with its own.
    hosts_elsewhere: int = 0
    expected_s: float
    known_jobs: int
    #: With all the devices that there are; None where there is none, and where jobs hold devices of other hosts, too:
    #: how many of these run at a time nobody counted.
    on_these_devices_s: float | None
    #: The worst of ``places``.
    place: Place | None
    #: One for each type and number of devices that its jobs need; none where no worker has registered a device.
    places: list[Place]
    #: Of ``systems``: each registered device, whether it was chosen, and the first requirement that it misses.
    systems: list[SystemRow] = []
    #: What is known of models that take a batch of their own: of files that were inspected or run here before.
    remarks: list[str]


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
    of_job: dict[int, list[str]] = {}
    for node in nodes:
        if node.job_index is not None:
            of_job.setdefault(node.job_index, []).append(node.stage)
    estimator = _estimator(db)
    job_s = [estimator.estimate_s(job.job_id, pipeline.length_s(job.spec)) for job in jobs]
    expected_s = sum(job_s)
    needed = sorted({str(job.spec.needed_device()) for job in jobs})
    state, cluster = cluster_state(db), Cluster(db)
    needs = dict.fromkeys((job.spec.needed_device(), job.spec.needed_devices()) for job in jobs)
    places = [
        place_of(state, device_types(device, cluster), count, submission.priority) for device, count in needs
    ]
    place = worst(places)
    at_once = max(count for _, count in needs)
    able = min((of.jobs_at_once for of in places if of), default=0)
    known = able and len(needed) == 1 and not any(job.spec.n_elsewhere() for job in jobs)
    return Planned(
        name=submission.name,
        kind=submission.kind,
        jobs=len(jobs),
        points=[job.point for job in jobs[:MOST_POINTS]],
        points_s=[round(one_s, 1) for one_s in job_s[:MOST_POINTS]],
        stages=planned_stages(pipeline, nodes),
        points_stages=[of_job[job.index] for job in jobs[:MOST_POINTS]],
        device=" or ".join(needed),
        devices_of_a_job=at_once,
        hosts_elsewhere=max((job.spec.n_elsewhere() for job in jobs), default=0),
        expected_s=round(expected_s, 1),
        known_jobs=sum(estimator.knows(job.job_id) for job in jobs),
        on_these_devices_s=round(together_s(job_s, able), 1) if known else None,
        place=place,
        places=[of for of in places if of],
        systems=system_rows(submission, jobs, of_cluster(db)),
        remarks=remarks(jobs, resolved.base_dir, settings.data_dir()),
    )


def planned_stages(pipeline: Pipeline[Any], nodes: Sequence[Node]) -> list[PlannedStage]:
    """The stages of a plan in the pipeline's order: of a swept block the first job may lack one that others have."""
    of_stage: dict[str, list[Node]] = {}
    for node in nodes:
        of_stage.setdefault(node.stage, []).append(node)
    return [
        PlannedStage(
            name=name,
            jobs=sum(node.job_index is not None for node in of_stage[name]),
            leased=any(node.lease is not None for node in of_stage[name]),
            of_submission=entry.facts.of_submission,
        )
        for entry in pipeline.entries
        for name in sorted(name for name in of_stage if pipeline.entry_of(name) is entry)
    ]


def _estimator(db: PerfDB) -> Estimator:
    """What the scheduler learns from the newest runs when it starts; learnt again after a while."""
    with _learning:
        at, estimator = _learnt.get(db.uri, (0.0, None))
        if estimator is None or time.monotonic() - at >= LEARN_AGAIN_S:
            estimator = learnt(db)
            _learnt[db.uri] = (time.monotonic(), estimator)
    return estimator
