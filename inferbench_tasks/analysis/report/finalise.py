"""Every run that started ends with a result document: those that failed or were cancelled get theirs here."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import (
    BackendRecord,
    DeviceInfo,
    LoadInfo,
    ModelInfo,
    Provenance,
    ResultDocument,
    RunDocument,
    SubmissionInfo,
    Summary,
)
from inferbench_tasks.perfdb.store import PerfDB


def finalise(db: PerfDB, run_ids: Sequence[str]) -> list[str]:
    """Write ``failed`` and ``cancelled`` results of the runs that have none; their ids.

    Call it when no stage of these runs is under way any more: a run that still counts as running then
    was killed, and is ended as failed.
    """
    ids = list(run_ids)
    known = {result["run_id"] for result in db.find_raw({"run_id": {"$in": ids}}, fields=["run_id"])}
    written = []
    for run in db.find_runs({"_id": {"$in": ids}}):
        if run.run_id in known:
            continue
        verdict = run.verdict or _ended_without_a_word(run)
        if verdict.measured:
            # Its result was deleted by someone: nothing is made up in its place.
            continue
        if run.status == "running":
            db.end_run(run.run_id, verdict)
        db.save_result(_without_figures(run, verdict))
        written.append(run.run_id)
    return written


def _ended_without_a_word(run: RunDocument) -> Verdict:
    stage = run.stages[-1].stage if run.stages else "generate"
    return Verdict.failed(
        stage, "it ended without a word: its process was killed, or the next stage never started"
    )


def _without_figures(run: RunDocument, verdict: Verdict) -> ResultDocument:
    """What was asked for and why there are no figures; how far it got is in ``extensions.stages``."""
    job = run.job
    model, serve, load = job.get("model", {}), job.get("serve", {}), job.get("load", {})
    device = DeviceSpec(str(serve.get("device", "cpu")))
    return ResultDocument(
        run_id=run.run_id,
        attempt=max((record.attempt for record in run.stages), default=1),
        job_id=run.job_id,
        invocation_id=run.invocation_id,
        submission=SubmissionInfo(name=run.submission.name, user=run.submission.user),
        model=ModelInfo(name=str(model.get("name") or model.get("family") or model.get("path") or "unknown")),
        format=str(job.get("convert", {}).get("format", "unknown")),
        backend=BackendRecord(kind=str(serve.get("backend", "unknown")), launcher=serve.get("launcher")),
        device=DeviceInfo(kind=device.kind),
        load=LoadInfo(**load),
        summary=Summary(),
        verdict=verdict,
        provenance=Provenance(**{"job": job}),
        extensions={"stages": [record.model_dump(exclude={"output"}) for record in run.stages]},
    )
