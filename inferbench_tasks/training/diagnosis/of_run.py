"""All that PerfDB has to say of what holds a run up: its own figures, its siblings, remedies of it that were run."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis import raw, verified
from inferbench_tasks.training.diagnosis.measured import Diagnosis, diagnose
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.diagnosis.stalls import Stalls, stalls_of
from inferbench_tasks.training.fleet.rows import device_of
from inferbench_tasks.training.result import TrainingResult

log = logging.getLogger(__name__)

#: So many runs of a job are looked through for the baseline of a device's kind.
_MOST_OF_JOB = 500
#: Rules whose evidence the differences of siblings are.
_OF_LOADING = ("preparation", "fetch")


def diagnosis_of(db: PerfDB, result: TrainingResult, ranks: Sequence[Steps] | None = None) -> Diagnosis:
    """``ranks``: its raw steps, if they are read already. Steps that can't be read leave the rules that need none."""
    steps = steps_of(db, result) if ranks is None else ranks
    made = diagnose(result, steps, same_job(db, result))
    made = with_stalls(made, stalls_of(result, siblings(db, result)))
    return made.model_copy(update={"verified": verified.of_run(db, result.run_id, result.attempt)})


def siblings(db: PerfDB, result: TrainingResult) -> list[TrainingResult]:
    """The runs of its invocation, itself among them: those of one submission, on one machine, one after the other."""
    if result.invocation_id is None:
        return []
    return db.results_of(TrainingResult, {"invocation_id": result.invocation_id})


def same_job(db: PerfDB, result: TrainingResult) -> list[TrainingResult]:
    """The newest runs of its job, itself among them; [] of one that leased no device, or whose job has no digest."""
    if device_of(result) is None or result.submission.digest is None:
        return []
    return db.results_of(TrainingResult, {"submission.digest": result.submission.digest}, limit=_MOST_OF_JOB)


def steps_of(db: PerfDB, result: TrainingResult) -> list[Steps]:
    """Its raw steps by rank; [] where they can't be read, which is logged."""
    try:
        return raw.ranks_of(db, result)
    except PerfDBError as error:
        log.warning("no steps of %s: %s", result.run_id, error)
        return []


def with_stalls(diagnosis: Diagnosis, stalls: Stalls | None) -> Diagnosis:
    """The differences beside the causes, and as evidence of those that speak of loading."""
    if stalls is None:
        return diagnosis
    sentence = stalls.sentence()
    causes = [
        cause.model_copy(update={"evidence": [*cause.evidence, sentence.rstrip(".")]})
        if cause.rule in _OF_LOADING
        else cause
        for cause in diagnosis.causes
    ]
    return diagnosis.model_copy(
        update={"causes": causes, "stalls": stalls.document(), "stalls_sentence": sentence}
    )
