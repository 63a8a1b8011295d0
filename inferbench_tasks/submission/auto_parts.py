"""``evaluate.parts: auto``: decided when a submission is read, by how many samples there are and how large each is.

The number is put in its place, so that a submission that was read has the same jobs wherever it is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from inferbench_tasks.contracts.dataset import fewest_parts
from inferbench_tasks.dotted import parts
from inferbench_tasks.errors import InputError
from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.part import AUTO, MOST_PARTS
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import Job

_FIELD = "evaluate.parts"
SubmissionT = TypeVar("SubmissionT", bound=SubmissionBase)


def undecided(jobs: Sequence[Job[Any]]) -> list[JobSpec]:
    """The jobs whose number of parts is still to be told."""
    return [
        job.spec
        for job in jobs
        if isinstance(job.spec, JobSpec) and job.spec.evaluate is not None and job.spec.evaluate.parts == AUTO
    ]


def with_parts(
    submission: SubmissionT, specs: Sequence[JobSpec], abilities: Abilities, base_dir: Path | None
) -> tuple[SubmissionT, tuple[FieldPath, str] | None]:
    """The submission with as many parts as the largest of these jobs needs, none where all fit in one; or where and why
    that can't be told.

    Data of the user's is not known where only the text is read (no ``base_dir``): then ``auto`` stays.
    """
    evaluate = getattr(submission, "evaluate", None)
    if evaluate is None or evaluate.parts != AUTO:
        return submission, (
            ("sweep",),
            "auto is one number for all jobs: write evaluate: {parts: auto}, unswept",
        )
    if base_dir is None and any(_of_files(spec) for spec in specs):
        return submission, None
    needed = 1
    # Most jobs of a sweep evaluate one model on the same data.
    for spec in {(repr(spec.model), repr(spec.evaluate)): spec for spec in specs}.values():
        try:
            count, sample_bytes = abilities.samples_to_ask(spec, base_dir or Path.cwd())
        except InputError as error:
            where = parts(error.field) if error.field else parts(_FIELD)
            return submission, (where, error.message)
        fewest = fewest_parts(count, sample_bytes)
        if fewest is None or fewest > MOST_PARTS:
            text = f"{count:,} samples of {sample_bytes:,} bytes fit in no {MOST_PARTS:,} parts; take fewer samples"
            return submission, (parts(_FIELD), text)
        needed = max(needed, fewest)
    told = evaluate.model_copy(update={"parts": needed if needed > 1 else None})
    return submission.model_copy(update={"evaluate": told}), None


def _of_files(spec: JobSpec) -> bool:
    return spec.model.kind == "file" or (spec.evaluate is not None and spec.evaluate.path is not None)
