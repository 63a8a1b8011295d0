"""A case with a PerfDB of its own: ``python -m benchmarks.training.one_run NAME [--verify]``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from benchmarks.regression.workplace import workplace
from benchmarks.training.cases import Case, cases, clean
from benchmarks.training.injections import Impossible
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.training.diagnosis import measured, observation, raw, verification
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stages import collect, generate, release, train


def trained(case: Case, job: TrainingJob, run_id: str, db: PerfDB, ctx: Context) -> TrainingResult:
    """The stages of a run in turn, ``train`` with the fault around it."""
    ids: dict[str, Any] = {"run_id": run_id, "attempt": 1, "job_id": "job", "job": job}
    data = generate.run(generate.Input(**ids), ctx)

    def with_fault() -> train.Output:
        with case.injection(data):
            return train.run(train.Input(**ids, generate=data), ctx)

    try:
        with ThreadPoolExecutor(1) as thread:
            output = thread.submit(with_fault).result()
        collect.run(collect.Input(**ids, generate=data, train=output), ctx)
    finally:
        release.run(release.Input(**ids), ctx)
    return db.results_of(TrainingResult, {"run_id": run_id})[0]


def row_of(case: Case, verify: bool) -> dict[str, Any]:
    """What was named first, beside what was injected; the remedy's step where it was run."""
    row: dict[str, Any] = {"case": case.name, "rule": case.rule, "load": os.getloadavg()[0]}
    started_s = time.monotonic()
    with workplace() as (db, data_dir):
        ctx = Context(data_dir=data_dir, perfdb_uri=None)
        result = trained(case, case.job, "fault.1", db, ctx)
        diagnosis = measured.diagnose(result, raw.ranks_of(db, result))
        run = observation.of_result(result, raw.ranks_of(db, result))
        regardless = measured.causes_of(run) if run else []
        named = [cause for cause in diagnosis.causes if cause.kind == "cause"]
        row |= {
            "verdict": result.verdict.kind,
            "reasons": [reason.check for reason in result.verdict.reasons],
            "named": named[0].rule if named else None,
            "all": {cause.rule: (cause.cost_s or 0.0) * 1e3 for cause in named},
            # What the rules would say of a run that does not count: no gate looks at it.
            "regardless": {cause.rule: (cause.cost_s or 0.0) * 1e3 for cause in regardless},
            "step_ms": diagnosis.step_s * 1e3 if diagnosis.step_s else None,
            "sentence": diagnosis.sentence,
        }
        cause = diagnosis.remedied
        if verify and cause is not None and named and cause is named[0]:
            job = TrainingJob.model_validate(measured.changed_job(result, cause))
            remedied = trained(case, job, "fault.2", db, ctx)
            row["verified"] = verification.beside(diagnosis, result, remedied).model_dump(mode="json")
    return row | {"seconds": time.monotonic() - started_s}


def end(number: int, frame: object) -> None:
    """SIGTERM: the training's processes end, then what waits for them unwinds: the fault, the leases, PerfDB."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(
                word in " ".join(child.cmdline()) for word in ("torchrun", "torch.distributed", "rank_main")
            ):
                child.kill()
    raise SystemExit(128 + number)


def main() -> None:
    """Print the row as the last line."""
    signal.signal(signal.SIGTERM, end)
    name = sys.argv[1]
    case = next(case for case in [*cases(), *clean()] if case.name == name)
    try:
        row = row_of(case, "--verify" in sys.argv[2:])
    except Impossible as error:
        row = {"case": case.name, "rule": case.rule, "impossible": str(error)}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
