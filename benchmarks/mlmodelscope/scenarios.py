"""Fashion-MNIST's 10,000 images in four scenarios on four runtimes, and three servers with faults.

    python -m benchmarks.mlmodelscope.scenarios [--model fashion-mnist] [--data FOLDER] [--rows FILE] [--again]

Each runtime (ONNX Runtime, TorchScript, OpenVINO, Triton) answers all 10,000 images in each scenario (single stream,
multi stream, server with Poisson arrivals, offline) in full precision: 16 submissions by `inferbench run --inline`,
with loads as short as they may be (each image is asked once in the scenario, however often it has to begin again) and
each image once alone. Passed where any two of the 16 name another class for at most 3 of the 10,000, where every image
got an answer, and where no run says that its answers under load are others than those alone or the source model's.

Then servers that answer as the model does but for one fault, with the same images: one errs only in batches, one swaps
two answers, one repeats its last answer. Passed where each is found, with just the samples that it answered wrongly.

It goes on where it was: what stands in the rows is not measured again without `--again`. Prints what it found and
`passed`, `FAILED` or `not judged` (a runtime that can't run here, with the reason). Exit code 0, 1, 2.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.mlmodelscope.faults import FAULTS, found_out
from benchmarks.submitted import NoResults, served_format, submitted
from inferbench_tasks.analysis.evaluations.listed import evaluation_of
from inferbench_tasks.analysis.evaluations.stored import answers_of
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.metrics.interference import NOTE
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB

MOST_DIFFERING = 3
RUNTIMES = ("onnxruntime", "torchscript", "openvino", "triton")
SCENARIOS: dict[str, dict[str, Any]] = {
    "single stream": {"arrivals": {"kind": "single_stream"}, "duration_s": 6},
    "multi stream": {"arrivals": {"kind": "multi_stream", "samples_per_query": 8}, "duration_s": 3},
    "server": {"arrivals": {"kind": "server", "rate_rps": 500}, "duration_s": 10},
    "offline": {"arrivals": {"kind": "offline", "requests": 1000}, "duration_s": 60, "timeout_ms": 60_000},
}


def measured(model: str, runtime: str, scenario: str, data_dir: Path) -> dict[str, Any]:
    """One row: what was answered to each image under that load. Raises NoResults, InferBenchError."""
    submission: dict[str, Any] = {
        "name": f"scenarios-{runtime}-{scenario.replace(' ', '-')}",
        "model": {"kind": "zoo", "name": model},
        "convert": {"format": served_format(runtime)},
        "serve": {"backend": runtime, "threads": 1},
        "load": {"warmup_s": 0.5, "wait_for_quiet_s": 0, **SCENARIOS[scenario]},
        "evaluate": {},
    }
    (ran,) = submitted(submission, data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            result = db.get_result(ran["run_id"])
            evaluation, table = evaluation_of(result), answers_of(db, result).sort_by("sample")
    finally:
        embedded.stop(data_dir)
    against = [
        reason.text for reason in result.verdict.reasons if (reason.check or "").startswith("evaluate.")
    ]
    measures = evaluation["under_load"].get("measures") or {}
    return {
        "answers": table["answer"].to_pylist(),
        "top1_ratio": (measures.get("top1_ratio") or {}).get("value"),
        "passes": evaluation["passes"],
        "unanswered": evaluation["under_load"]["unanswered"],
        "against": "; ".join(against),
        "verdict": str(result.verdict),
    }


def differing(rows: list[dict[str, Any]]) -> tuple[int, str]:
    """The most images for which two rows name another class, and which two these are."""
    answers = {row["what"]: np.asarray(row["answers"]) for row in rows}
    pairs = {
        f"{one} and {other}": int((answers[one] != answers[other]).sum())
        for one, other in combinations(answers, 2)
    }
    worst = max(pairs, key=lambda pair: pairs[pair])
    return pairs[worst], worst


def answers_judged(rows: list[dict[str, Any]], missing: list[str]) -> tuple[int, list[str]]:
    """The exit code and the words, of the runs that are there; ``missing``: why others are not."""
    words, bad, silent = [f"not judged: {why}" for why in missing], False, False
    for row in rows:
        if row["unanswered"]:
            silent = True
            words.append(
                f"{row['what']}: not judged: {row['unanswered']} images got no answer: {row['verdict']}"
            )
        elif row["against"]:
            bad = True
            words.append(f"{row['what']}: FAILED: {row['against']}")
    whole = [row for row in rows if not row["unanswered"]]
    if len(whole) > 1:
        count, pair = differing(whole)
        bad = bad or count > MOST_DIFFERING
        images = len(whole[0]["answers"])
        words.append(
            f"classes in full precision: any two of {len(whole)} runs differ in at most {count} of {images:,} images "
            f"({pair}; limit {MOST_DIFFERING}): {'FAILED' if count > MOST_DIFFERING else 'passed'}"
        )
    return 1 if bad else 2 if missing or silent or len(whole) < 2 else 0, words


def faults_judged(rows: list[dict[str, Any]], missing: list[str]) -> tuple[int, list[str]]:
    """As ``answers_judged``, of the servers with faults."""
    words, good, whole = [f"not judged: {why}" for why in missing], True, not missing
    for row in rows:
        if row["unanswered"]:
            whole = False
            words.append(f"{row['what']}: not judged: {row['unanswered']} images got no answer")
            continue
        wrong, found = set(row["wrong"]), set(row["found"])
        right = bool(wrong) and wrong == found and row["said"] == len(wrong) and bool(row["against"])
        good = good and right
        words.append(
            f"{row['what']}: {row['said']} of {row['samples']:,} answers are wrong, {len(found & wrong)} of these "
            f"samples are named, {len(found - wrong)} others: {'passed' if right else 'FAILED'}"
        )
    return 1 if not good else 0 if whole else 2, words


def main() -> int:
    """Measure what is missing, print all, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="fashion-mnist")
    parser.add_argument("--data", type=Path, default=Path("build/scenarios"))
    parser.add_argument(
        "--rows", type=Path, default=Path("build/scenarios.parquet"), help="Raw rows, Parquet."
    )
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    os.environ[MODE] = (
        NOTE  # answers are judged and no times, so no run is repeated for what else the machine did
    )
    data_dir: Path = options.data.resolve()
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    rows = {} if options.again else kept(options.rows)
    if others := {row["model"] for row in rows.values()} - {options.model}:
        parser.error(f"{options.rows} is of {', '.join(sorted(others))}: name other --rows, or --again")
    missing: dict[str, list[str]] = {"answers": [], "fault": []}

    def measure(kind: str, what: str, row_of: Callable[[], dict[str, Any]]) -> None:
        if what in rows and not rows[what]["unanswered"]:
            return
        try:
            rows[what] = {"kind": kind, "what": what, "model": options.model, **row_of()}
        except (NoResults, InferBenchError, json.JSONDecodeError) as error:
            missing[kind].append(f"{what}: {error}")
            return
        pd.DataFrame(rows.values()).to_parquet(options.rows)
        print(f"{what}: {rows[what]['verdict']}", flush=True)

    reasons = {runtime: BACKENDS.load(runtime).unavailable("process") for runtime in RUNTIMES}
    missing["answers"] += [f"{runtime}: {reason}" for runtime, reason in reasons.items() if reason]
    for scenario in SCENARIOS:
        for runtime in (runtime for runtime in RUNTIMES if not reasons[runtime]):
            run = partial(measured, options.model, runtime, scenario, data_dir)
            measure("answers", f"{runtime}, {scenario}", run)
    for fault in FAULTS:
        measure("fault", fault, partial(found_out, options.model, fault, data_dir))
    codes = []
    for kind, judged in (("answers", answers_judged), ("fault", faults_judged)):
        code, words = judged([row for row in rows.values() if row["kind"] == kind], missing[kind])
        print("\n".join(words))
        codes.append(code)
    return 1 if 1 in codes else max(codes)


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of before, by what they are of."""
    lines: list[Any] = pd.read_parquet(path).to_dict("records") if path.exists() else []
    return {row["what"]: row for row in lines}


if __name__ == "__main__":
    raise SystemExit(main())
