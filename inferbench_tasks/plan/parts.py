"""A large submission in parts: so many jobs in the sweep's order, each part a graph of its own.

What Airflow's scheduler does in each of its rounds grows with the tasks of the runs that are under way, and what each
task does before it begins with the tasks of its DAG. Parts bound both, whatever the size of the sweep (ADR 37).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.pipelines.base import Pipeline
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.sweep import Job

#: The jobs of a part; a submission of at most twice as many is one graph.
PART_JOBS = 50


def parts_of(jobs: int, part_jobs: int = PART_JOBS) -> Sequence[range]:
    """The places of each part's jobs in the sweep; none where one graph holds all."""
    if jobs <= 2 * part_jobs:
        return ()
    return [range(first, min(first + part_jobs, jobs)) for first in range(0, jobs, part_jobs)]


def in_turns(pipeline: Pipeline[Any], jobs: Iterable[Job[JobBase]]) -> bool:
    """Whether a part waits for all jobs before it: of blocks, and where stages may follow those of other jobs."""
    return any(entry.facts.after for entry in pipeline.entries) or any(job.spec.block for job in jobs)
