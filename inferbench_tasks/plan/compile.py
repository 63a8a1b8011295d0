"""From a submission to its graph. Pure: the same submission gives the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import Pipeline, StageEntry, pipeline_of
from inferbench_tasks.plan.graph import Node, RunPlan
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.digest import digest_of_jobs
from inferbench_tasks.submission.sweep import Job, expand


def group_id(job_index: int) -> str:
    """``job-003``: a job within a plan."""
    return f"job-{job_index:03d}"


def node_id(stage: str, job_index: int | None) -> str:
    """``job-003.load``; a stage of the submission stands alone."""
    return stage if job_index is None else f"{group_id(job_index)}.{stage}"


def compile_plan(submission: SubmissionBase, jobs: Sequence[Job[JobBase]] | None = None) -> RunPlan:
    """All nodes of a submission: the stages of each job, then those that follow all jobs.

    ``jobs``: all of its jobs, where they are known already.
    """
    jobs = expand(submission) if jobs is None else jobs
    nodes = compile_jobs(submission, jobs)
    ends = {group_id(node.job_index): node.id for node in nodes if node.last and node.job_index is not None}
    closing = closing_nodes(submission, len(jobs), ends)
    return RunPlan(digest_of_jobs(job.digest for job in jobs), tuple(jobs), (*nodes, *closing))


def compile_jobs(submission: SubmissionBase, jobs: Sequence[Job[JobBase]]) -> list[Node]:
    """The nodes of some jobs of a submission, in the sweep's order; they follow none of the others."""
    pipeline = pipeline_of(submission)
    return _following(pipeline, jobs, [node for job in jobs for node in job_nodes(pipeline, job)])


def closing_nodes(submission: SubmissionBase, jobs: int, needs: dict[str, str]) -> list[Node]:
    """What follows all jobs; ``needs``: what it waits for, as name -> node id."""
    static = {"submission": submission.model_dump(mode="json"), "jobs": jobs}
    return [
        Node(
            id=node_id(entry.name, None),
            stage=entry.name,
            module=entry.module,
            needs=needs,
            resource="host",
            lease=None,
            job_index=None,
            input=static,
            retries=entry.facts.retries,
        )
        for entry in pipeline_of(submission).of_submission()
    ]


def job_nodes(pipeline: Pipeline[Any], job: Job[JobBase]) -> list[Node]:
    """A job's nodes, each after the one before it; needs of stages that the job does not have fall away."""
    entries = pipeline.of_job(job.spec)
    static = {"job_id": job.job_id, "job": job.spec.model_dump(mode="json")}
    leased = [entry.name for entry in entries if entry.facts.leased]
    names = [entry.name for entry in entries]
    elsewhere = _elsewhere(pipeline.kind, job.spec, leased)
    ids = {name: node_id(name, job.index) for name in names}
    device, devices, expected_s = (
        job.spec.needed_device(),
        job.spec.needed_devices(),
        pipeline.length_s(job.spec),
    )
    return [
        Node(
            id=ids[entry.name],
            stage=entry.name,
            module=entry.module,
            needs={need: ids[need] for need in (*_needed(entry, entries[:at]), *names[max(0, at - 1) : at])},
            resource=device if entry.facts.leased else "host",
            lease=job.job_id if entry.facts.leased else None,
            job_index=job.index,
            input={**static, "number": entry.number} if entry.facts.times else static,
            expected_s=expected_s,
            devices=devices,
            retries=entry.facts.retries,
            opens=leased[:1] == [entry.name],
            closes=leased[-1:] == [entry.name],
            first=at == 0,
            last=at == len(names) - 1,
            apart=bool(elsewhere),
            elsewhere=elsewhere.get(entry.name, 0),
            asks=entry.facts.asks,
        )
        for at, entry in enumerate(entries)
    ]


def _needed(entry: StageEntry, before: Sequence[StageEntry]) -> list[str]:
    """The names of the stages that one needs, of those that its job has."""
    return [one.name for need in entry.facts.needs for one in before if one.stage == need]


def _elsewhere(kind: str, spec: JobBase, leased: Sequence[str]) -> dict[str, int]:
    """The stages of a job that run on other hosts, with the host's number; InputError for those that open or close its
    lease, and for hosts on which none runs.
    """
    elsewhere = spec.stages_elsewhere()
    if wrong := [name for name in elsewhere if name not in leased[1:-1]]:
        raise InputError(
            f"The pipeline {kind!r}: {', '.join(wrong)} can't run on another host; only stages between the first and "
            f"the last on the device can: {', '.join(leased[1:-1]) or 'none'}"
        )
    if not elsewhere:
        return {}
    if spec.needed_devices() > 1:
        raise InputError(f"The pipeline {kind!r}: with a device of another host a job holds one of its own")
    numbers = {name: spec.hosts_elsewhere().get(name, 1) for name in elsewhere}
    if set(numbers.values()) != set(range(1, spec.n_elsewhere() + 1)):
        raise InputError(
            f"The pipeline {kind!r}: hosts_elsewhere() has to number other hosts from 1 on and have a stage on each; "
            f"with it stages run on {sorted(set(numbers.values()))}"
        )
    return numbers


def _following(pipeline: Pipeline[Any], jobs: Sequence[Job[JobBase]], nodes: Sequence[Node]) -> list[Node]:
    """The nodes, those of stages that follow others' with the ids of those, of jobs before theirs of the same point."""
    after = {entry.name: entry.facts.after for entry in pipeline.entries if entry.facts.after}
    if not after:
        return list(nodes)
    points = {job.index: repr(sorted(job.point.items())) for job in jobs}
    ids: dict[tuple[str, str], list[str]] = {}
    linked = []
    for node in nodes:
        if node.job_index is None:
            linked.append(node)
            continue
        point = points[node.job_index]
        waits = [one for name in after.get(node.stage, ()) for one in ids.get((point, name), ())]
        linked.append(replace(node, follows=tuple(waits)) if waits else node)
        ids.setdefault((point, node.stage), []).append(node.id)
    return linked
