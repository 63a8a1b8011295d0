"""Every run that started ends with a result document: those that failed or were cancelled get theirs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB, ResultT


def finalise(
    db: PerfDB,
    run_ids: Sequence[str],
    schema: type[ResultT],
    without_figures: Callable[[RunDocument, Verdict], ResultT],
    first_stage: str,
) -> list[str]:
    """Write ``failed`` and ``cancelled`` results of the runs that have none; their ids.

    Call it when no stage of these runs is under way any more: a run that still counts as running then
    was killed, and is ended as failed. ``schema`` is that of their results; ``without_figures`` makes one of a run and
    its verdict.
    """
    ids = list(run_ids)
    raw = db.find_raw({"run_id": {"$in": ids}}, fields=["run_id"], collection=schema.collection)
    with_result = {result["run_id"] for result in raw}
    written = []
    for run in db.find_runs({"_id": {"$in": ids}}):
        if run.run_id in with_result:
            continue
        verdict = run.verdict or _ended_without_a_word(run, first_stage)
        if verdict.measured:
            # Its result was deleted by someone: nothing is made up in its place.
            continue
        if run.status == "running":
            db.end_run(run.run_id, verdict)
        db.save_result(without_figures(run, verdict))
        written.append(run.run_id)
    return written


def standing(
    db: PerfDB, schema: type[ResultT], run_id: str, attempt: int, has_figures: Callable[[ResultT], bool]
) -> tuple[int, ResultT | None]:
    """Which attempt a result is of that is about to be written, and the one with figures that stands already: the stage
    is repeated then, and nothing is written.

    A job that was lost may have been given its result without figures before it was run again. A stage that had not
    begun then counts from one, too, and what it measured is the next attempt.
    """
    latest = db.results_of(schema, {"run_id": run_id}, sort=(("attempt", -1),), limit=1)
    if not latest or latest[0].attempt < attempt:
        return attempt, None
    return (attempt, latest[0]) if has_figures(latest[0]) else (latest[0].attempt + 1, None)


def common_fields(run: RunDocument, verdict: Verdict) -> dict[str, object]:
    """What a result without figures has of every kind; how far the run got is in ``extensions.stages``."""
    return {
        "run_id": run.run_id,
        "attempt": max((record.attempt for record in run.stages), default=1),
        "job_id": run.job_id,
        "invocation_id": run.invocation_id,
        "submission": run.submission.model_dump(include={"name", "user", "login"}),
        "verdict": verdict,
        "provenance": {"job": run.job},
        "extensions": {"stages": [record.model_dump(exclude={"output"}) for record in run.stages]},
    }


def _ended_without_a_word(run: RunDocument, first_stage: str) -> Verdict:
    stage = run.stages[-1].stage if run.stages else first_stage
    return Verdict.failed(
        stage, "it ended without a word: its process was killed, or the next stage never started"
    )
