"""Two runs of one submission of bricks: whether a model's times agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.replay import Judged, agreement_of
from inferbench_tasks.analysis.stated import Z95, Stated
from inferbench_tasks.brick_jobs.result import BricksResult, Times
from inferbench_tasks.errors import InputError


def job_again(job: Mapping[str, Any]) -> dict[str, Any]:
    """The whole submission of a part, with everything measured anew: stored times would agree with themselves."""
    return {**job, "part": None, "measure": {**job.get("measure", {}), "reuse": "never"}}


def again(then: BricksResult, results: Sequence[BricksResult]) -> BricksResult | None:
    """The same part of the submission."""
    return next((result for result in results if _part(result) == _part(then)), None)


def agreement(then: BricksResult, now: BricksResult) -> list[dict[str, Any]]:
    """What is constructed of bricks, before anything calibrates it, of warm times, for which of them are predicted may
    differ; and what the whole model took. InputError for the run of a shard or of the cutting.
    """
    if then.role != "model":
        raise InputError(
            f"{then.run_id} is the part {then.role!r} of a submission, which has no figures of its own: replay the run "
            "of a model"
        )
    return agreement_of(_judged(then), _judged(now), count=then.valid and now.valid)


def _judged(result: BricksResult) -> list[Judged]:
    figures = []
    for one in result.predictions:
        of = f"{one.granularity} layers, batch {one.batch_size}"
        figures.append(_figure(f"constructed ({of})", one.warm_sum))
        if one.measured is not None:
            figures.append(_figure(f"measured ({of})", one.measured))
    return figures


def _figure(name: str, times: Times) -> Judged:
    return Judged(name, "ms", times.ms, Stated(within=(times.high_ms - times.low_ms) / 2 / Z95))


def _part(result: BricksResult) -> Any:
    part = (result.provenance.model_dump().get("job") or {}).get("part") or {}
    return part.get("role"), part.get("at")
