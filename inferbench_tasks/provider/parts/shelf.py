"""The parts of large submissions that were begun, kept as files: each becomes a DAG while it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.pipelines.base import AnySubmission, job_of
from inferbench_tasks.provider.submit.shelf import JsonShelf
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.sweep import Job, job_id
from inferbench_tasks.upkeep.places.submitted import PARTS


class PlacedJob(BaseModel):
    """One job of a part, with the place that it has in the whole sweep."""

    index: int
    point: dict[str, Any]
    spec: dict[str, Any]


class PlacedPart(BaseModel):
    """A file of the shelf: what a task of the part needs, so that none of them expands the whole sweep."""

    submission: AnySubmission
    base_dir: str
    jobs: list[PlacedJob]

    @classmethod
    def of(
        cls, submission: SubmissionBase, base_dir: str, part: PartName, jobs: Sequence[Job[JobBase]]
    ) -> PlacedPart:
        """The jobs of a part; ``jobs``: all of the submission."""
        mine = jobs[part.first : part.last + 1]
        placed = [PlacedJob(index=j.index, point=j.point, spec=j.spec.model_dump(mode="json")) for j in mine]
        return cls(submission=submission, base_dir=base_dir, jobs=placed)

    def expanded(self) -> list[Job[JobBase]]:
        """Its jobs, as ``sweep.expand`` made them."""
        jobs = []
        for placed in self.jobs:
            spec = job_of(placed.spec)
            digest = job_digest(spec)
            jobs.append(Job(placed.index, digest, job_id(self.submission.name, digest), placed.point, spec))
        return jobs


class PartShelf(JsonShelf[PlacedPart]):
    """``<data_dir>/parts/<dag id>.json``."""

    #: Those begun last stay DAGs for a while after their end, so that people can look at their tasks.
    shown = 4

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir / PARTS, PlacedPart)

    def place(self, name: PartName, part: PlacedPart) -> None:
        """Put it on the shelf."""
        self.write(str(name), part)
