"""A stored run as a submission that makes it again, whatever its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultBase
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import pipeline_of, results_of
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.files import changed_files, content_digests, missing_files


def result_of(db: PerfDB, run_id: str) -> ResultBase:
    """The result of a run's latest attempt, by the schema of its kind; InputError if there is none."""
    for run in db.find_runs({"_id": run_id}):
        for result in results_of(db, run):
            return result
    return db.get_result(run_id)  # of serving, imported without its run


def submission_of(result: ResultBase) -> SubmissionBase:
    """The job of a result as a submission of one run; InputError if the result does not hold it."""
    job = result.provenance.model_dump().get("job")
    if not job:
        raise InputError(f"The result of {result.run_id} does not hold its job; it can't be replayed.")
    pipeline = pipeline_of(job)
    # Stored as JSON, so in the lax mode that JSON needs (lists for tuples).
    return pipeline.submission.model_validate_json(json.dumps({**pipeline.job_again(job), "sweep": None}))


def require_files(run_id: str, submission: SubmissionBase, base_dir: Path) -> None:
    """InputError unless every file that the run used is in ``base_dir`` with the content that it had then.

    Of a file whose content was not written down nobody knows what it was.
    """
    problems = list(_problems(submission, base_dir))
    if problems:
        raise InputError(
            f"{run_id} used files beside its submission, which PerfDB does not keep: {'; '.join(problems)}. Run that "
            "submission again, or replay it in its folder if the files are as they were."
        )


def _problems(submission: SubmissionBase, base_dir: Path) -> Iterator[str]:
    named = list(submission.named_files())
    unknown = [file for file in named if not file.counts or file.path not in submission.files]
    yield from (f"what {file.path!r} ({file.field}) held was not written down" for file in unknown)
    if not unknown:
        digests = content_digests([submission], base_dir)
        findings = [*missing_files(submission, base_dir), *changed_files(submission, digests)]
        yield from (finding.message for finding in findings)
