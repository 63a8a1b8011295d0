"""The compiled graph of a submission: what will be done, in which order, on what. Knows no Airflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from inferbench_tasks.submission.sweep import Job

StageName = Literal["generate", "convert", "serve", "load", "collect", "release", "analyze"]


@dataclass(frozen=True, slots=True)
class Node:
    """One execution of one stage.

    ``resource`` is "host" or the device requirement of the job ("cpu", "gpu", "gpu:<type>"); nodes
    that share a ``lease`` run on one device, held from ``serve`` to ``release``. ``input`` is the
    static part of the stage's Input; the outputs of ``needs`` are added under their stages' names.
    """

    id: str
    stage: StageName
    needs: tuple[str, ...]
    resource: str
    lease: str | None
    job_index: int | None
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All nodes of a submission, each after those it needs, and the jobs in the sweep's order."""

    submission_digest: str
    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
