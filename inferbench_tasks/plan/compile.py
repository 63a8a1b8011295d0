"""From a submission to its graph. Pure: the same submission gives the same plan."""

from __future__ import annotations

from inferbench_tasks.plan.graph import Node, RunPlan, StageName
from inferbench_tasks.submission.digest import digest_of_jobs
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import Job, expand

#: What each stage of a job needs, in the order of the pipeline.
PIPELINE: dict[StageName, tuple[StageName, ...]] = {
    "generate": (),
    "convert": ("generate",),
    "serve": ("generate", "convert"),
    "load": ("generate", "serve"),
    "collect": ("generate", "convert", "serve", "load"),
    "release": ("serve", "collect"),
}
#: Stages that run while the job holds its device.
LEASED: frozenset[StageName] = frozenset({"serve", "load", "collect", "release"})


def node_id(job_index: int, stage: StageName) -> str:
    """``job-003.load``; ``analyze`` stands alone."""
    return f"job-{job_index:03d}.{stage}"


def compile_plan(submission: Submission) -> RunPlan:
    """All nodes of a submission: six per job, and one ``analyze`` after all of them."""
    jobs = expand(submission)
    nodes = [node for job in jobs for node in _job_nodes(job)]
    analyze = Node(
        id="analyze",
        stage="analyze",
        needs=tuple(node_id(job.index, "release") for job in jobs),
        resource="host",
        lease=None,
        job_index=None,
        input={"submission": submission.model_dump(mode="json"), "jobs": len(jobs)},
    )
    return RunPlan(digest_of_jobs(job.digest for job in jobs), tuple(jobs), (*nodes, analyze))


def _job_nodes(job: Job) -> list[Node]:
    spec = job.spec.model_dump(mode="json")
    return [
        Node(
            id=node_id(job.index, stage),
            stage=stage,
            needs=tuple(node_id(job.index, need) for need in needs),
            resource=job.spec.serve.device if stage in LEASED else "host",
            lease=job.job_id if stage in LEASED else None,
            job_index=job.index,
            input={"job_id": job.job_id, "job": spec},
        )
        for stage, needs in PIPELINE.items()
    ]
