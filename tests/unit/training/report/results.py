"""Results of trainings with steps of known times."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.documents import Provenance, SubmissionInfo
from inferbench_tasks.training import figures
from inferbench_tasks.training.report.views import TrainingView
from inferbench_tasks.training.result import EngineInfo, NetworkInfo, TrainingResult, TrainingSummary
from tests.unit.training.epochs import answer


def view(
    label: str,
    factor: int = 1,
    *,
    interval: tuple[float, float] | None = None,
    wrong: str | None = None,
    data: str = "digits",
    ranks: int = 1,
    threads: int = 1,
    jade: dict[str, Any] | None = None,
) -> TrainingView:
    """A run whose steps take ``factor`` times 12 ms; ``interval``: of its samples/s; ``wrong``: why it is invalid."""
    answers = [answer(rank, factor=factor) for rank in range(ranks)]
    bare = figures.bare(answers)
    if interval is not None:
        bare["samples_per_s_ci95"] = list(interval)
    reasons = [Reason(check="steps", text=wrong)] if wrong else []
    summary = TrainingSummary(
        synchronised=figures.of_timing(answers, "inference", "ddp"),
        bare=bare,
        jade=jade,
        loss=figures.loss(answers),
    )
    stored = [reason.model_dump(exclude_none=True) for reason in reasons]
    result = TrainingResult(
        run_id=f"x-1.{label}",
        attempt=1,
        job_id="x",
        submission=SubmissionInfo(name="x"),
        verdict=Verdict.judged(reasons),
        benchmark="inference",
        model=NetworkInfo(name="fashion-cnn", parameters=5, image_size=28),
        data={"kind": data},
        engine=EngineInfo(kind="torchrun", strategy="ddp", processes=ranks, threads=threads),
        summary=summary,
        certificate={"valid": not reasons, "reasons": stored, "warnings": []},
        provenance=Provenance(),
    )
    return TrainingView(result.run_id, {}, result, label)
