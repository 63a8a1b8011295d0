"""The results of serving runs that failed or were cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument
from inferbench_tasks.perfdb.finalise import common_fields
from inferbench_tasks.perfdb.finalise import finalise as finalise_runs
from inferbench_tasks.perfdb.offered import NO_LOAD
from inferbench_tasks.perfdb.store import PerfDB


def finalise(db: PerfDB, run_ids: Sequence[str]) -> list[str]:
    """Give each of these runs that ended without a result one, as ``perfdb.finalise`` does."""
    return finalise_runs(db, run_ids, ResultDocument, without_figures, "generate")


def without_figures(run: RunDocument, verdict: Verdict) -> ResultDocument:
    """What was asked for and why there are no figures."""
    job = run.job
    model, serve = job.get("model", {}), job.get("serve", {})
    load = job.get("load") or ({"arrivals": {"kind": NO_LOAD}} if job else {})
    device = DeviceSpec(str(serve.get("device", "cpu")))
    return ResultDocument.model_validate(
        {
            **common_fields(run, verdict),
            "model": {
                "name": str(model.get("name") or model.get("family") or model.get("path") or "unknown")
            },
            "format": str(job.get("convert", {}).get("format", "unknown")),
            "backend": {"kind": str(serve.get("backend", "unknown")), "launcher": serve.get("launcher")},
            "device": {"kind": device.kind},
            "load": load,
            "summary": {},
        }
    )
