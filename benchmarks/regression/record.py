"""Record real noise: nights of an unchanged pair, baseline and candidate interleaved, as a small Parquet.

    python -m benchmarks.regression.record FILE.parquet --nights 30 --pairs 6

Every run is a real one: a fresh server process, a warm-up, a short Poisson load, the pipeline's own stages
(all but the report). Both sides run the same code, so whatever differs between them is noise. Rows are
appended night by night; a file that exists is continued.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from inferbench_tasks import settings
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.stages.execute import execute_stage
from inferbench_tasks.stages.invocation import Invocation
from inferbench_tasks.submission.schema import Submission

SUBMISSION = {
    "name": "noise",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {
        "arrivals": {"kind": "poisson", "rate_rps": 300},
        "duration_s": 1,
        "warmup_s": 0.2,
    },
}
PARTS = ("preprocess", "transmit", "queue", "inference", "postprocess")


def one_run(data_dir: Path) -> str:
    """Run the submission once; the run's id."""
    submission = Submission.model_validate(SUBMISSION)
    invocation = Invocation.new(data_dir, submission.name)
    outputs: dict[str, dict[str, Any]] = {}
    for node in compile_plan(submission).nodes:
        if node.stage == "analyze":
            continue
        outputs[node.stage] = execute_stage(
            node.stage, node.input, {need.rsplit(".", 1)[-1]: outputs[need.rsplit(".", 1)[-1]] for need in node.needs},
            invocation=invocation, job_index=node.job_index, base_dir=data_dir, data_dir=data_dir,
        )  # fmt: skip
    return invocation.run_id(0)


def figures(db: PerfDB, run_id: str) -> dict[str, Any]:
    """The run's figures as one flat row."""
    summary = db.get_result(run_id).summary.model_dump()
    latency, stages = summary["e2e_latency_ms"], summary["stages_ms"]
    cold = summary["cold_start_ms"]
    return {
        **{f"{name}_ms": latency[name] for name in ("mean", "p50", "p90", "p95", "p99")},
        **{f"{part}_ms": (stages[part] or {}).get("mean") for part in PARTS},
        "cold_start_ms": cold.get("total_ms") if isinstance(cold, dict) else cold,
        "verdict": db.get_result(run_id).verdict.split(":")[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=4.5, help="stop after the night that passes this")
    asked = parser.parse_args()
    known = pd.read_parquet(asked.file) if asked.file.exists() else None
    first = 0 if known is None else int(known["night"].max()) + 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="inferbench-noise-") as folder:
        data_dir = settings.data_dir() if settings.data_dir().exists() else Path(folder)
        with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
            one_run(data_dir)  # the model is made and converted, caches are warm
            for night in range(first, asked.nights):
                rows = []
                order = itertools.islice(itertools.cycle("bccb"), 2 * asked.pairs)
                for position, side in enumerate(order):
                    row = figures(db, one_run(data_dir))
                    side = {"b": "baseline", "c": "candidate"}[side]
                    rows.append(
                        {"night": night, "position": position, "side": side, "at_s": time.time(), **row}
                    )
                known = pd.concat([known, pd.DataFrame(rows)]) if known is not None else pd.DataFrame(rows)
                known.to_parquet(asked.file, index=False, compression="zstd")
                print(f"night {night}: {[round(r['p50_ms'], 3) for r in rows]}", flush=True)
                if time.monotonic() - began > 60 * asked.minutes:
                    break


if __name__ == "__main__":
    main()
