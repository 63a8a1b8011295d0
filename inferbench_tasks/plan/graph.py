"""The compiled graph of a submission: what will be done, in which order, on what. Knows no Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.sweep import Job


@dataclass(frozen=True, slots=True)
class Node:
    """One execution of one stage; ``module`` is the stage's.

    ``needs``: what it waits for, as name -> node id: of a job's node the stages whose outputs its Input may
    name, of a submission's node the jobs. ``resource`` is "host" or the device requirement of the job ("cpu",
    "gpu", "gpu:<type>"); nodes that share a ``lease`` run on one device, held from the node that ``opens`` it
    to the one that ``closes`` it. ``first`` and ``last`` of its job; a node of the submission is neither.
    ``expected_s``: what its job is expected to take on its device. ``devices``: how many of one host it holds.
    ``input`` is the static part of the stage's Input. ``follows``: the ids of other jobs' nodes that it waits for,
    whatever became of them. ``apart``: its job holds devices of other hosts beside its own; ``elsewhere``: the number
    of the one that it runs on, from 1; 0: its job's own host. ``asks``: its output says what the host of the job's own
    device has to be able to do.
    """

    id: str
    stage: str
    module: str
    needs: dict[str, str]
    resource: str
    lease: str | None
    job_index: int | None
    input: dict[str, Any]
    expected_s: float = 0.0
    devices: int = 1
    retries: int = 0
    opens: bool = False
    closes: bool = False
    first: bool = False
    last: bool = False
    follows: tuple[str, ...] = ()
    apart: bool = False
    elsewhere: int = 0
    asks: bool = False

    @property
    def cleans_up(self) -> bool:
        """Whether it gives back what another node of the job took: it runs whatever happened in between."""
        return self.closes and not self.opens

    @property
    def concludes(self) -> bool:
        """Whether a cancelled run still ends with it: it cleans up, or reports."""
        return self.cleans_up or self.job_index is None


@dataclass(frozen=True)
class RunPlan:
    """All nodes of a submission, each after those it needs, and the jobs in the sweep's order."""

    submission_digest: str
    jobs: tuple[Job[JobBase], ...]
    nodes: tuple[Node, ...]

    @cached_property
    def _by_job(self) -> dict[int | None, tuple[Node, ...]]:
        nodes: dict[int | None, list[Node]] = {}
        for node in self.nodes:
            nodes.setdefault(node.job_index, []).append(node)
        return {index: tuple(group) for index, group in nodes.items()}

    @property
    def interleaved(self) -> bool:
        """Whether its jobs are blocks of points that are measured in turns: then their order counts."""
        return any(job.spec.block is not None for job in self.jobs)

    def of_job(self, index: int) -> tuple[Node, ...]:
        """A job's nodes in their order."""
        return self._by_job[index]

    def of_submission(self) -> tuple[Node, ...]:
        """The nodes that follow all jobs."""
        return self._by_job.get(None, ())
