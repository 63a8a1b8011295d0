"""What the layer level costs each of the 37 models of MLModelScope's evaluation, and whether layers add up to the run.

    python -m benchmarks.mlmodelscope.layers [MODEL...] [--backend onnxruntime] [--requests 10] [--rounds 5]
                                             [--data FOLDER] [--rows FILE] [--again]

Each model of `configs/mlmodelscope.yaml` that stands for one or more of the 37 (copies of an architecture are measured
once) is a submission of its own with the block `trace`, by `inferbench run --inline`: the same requests one by one with
the instruments of each level on, in rounds, each level the first in turns. Its lines: what each level costs (the median
latency by that without instruments, geometric mean and Student's interval over the rounds) and which share of the run
its layers add up to. It goes on where it was: a model that stands in the rows is not measured again without `--again`.

Passed where the layer level costs at most 10% in the median of the 37, and where the layers of at least 34 of them add
up to 95 to 105% of the run (how many are within 3% is said, too), and where the latency that a traced session tells of
the model is within 3% of the untraced one for at least 34: that of the level model, as leveled profiling takes each
level's from the server that has no deeper instruments. FAILED otherwise; not judged before all 37 are there.
Exit code 0, 1, 2. Large models take minutes each, all of them hours.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from benchmarks.submitted import NoResults, served_format, submitted
from inferbench_tasks.analysis.systems.study import Entry, read
from inferbench_tasks.cli.paper_models import CATALOGUE
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.checks import ADDS_UP
from inferbench_tasks.tracing.queries import trace_of

NAMES, LEAST, LARGEST_MEDIAN = 37, 34, 1.10
CLOSE = (0.97, 1.03)
BACKENDS = ("onnxruntime", "openvino", "torchscript")


def measured(entry: Entry, backend: str, requests: int, rounds: int, data_dir: Path) -> list[dict[str, Any]]:
    """A row for each level. Raises NoResults, InferBenchError with the reason where there is no trace."""
    submission: dict[str, Any] = {
        "name": f"layers-{entry.model}-{backend}",
        "model": {"kind": "zoo", "name": entry.model, "framework": entry.framework},
        "requests": {"kind": "random", "samples": requests},
        "convert": {"format": served_format(backend)},
        "serve": {"backend": backend, "threads": 1},
        "trace": {"requests": requests, "rounds": rounds},
    }
    (ran,) = submitted(submission, data_dir)
    try:
        with PerfDB.connect(embedded.ensure(data_dir), data_dir) as db:
            trace = trace_of(db.get_result(ran["run_id"]))
    finally:
        embedded.stop(data_dir)
    if why := (trace.get("untold") or {}).get("layer"):
        raise NoResults(f"no level layer: {why}")
    layers = trace["layers"] or {}
    about = {
        "model": entry.model,
        "names": len(entry.paper),
        "backend": backend,
        "layers": len(layers.get("layers", ())),
        "explained_ratio": layers.get("explained_ratio"),
        "defects": trace["defects"],
        "verdict": ran["verdict"],
    }
    return [
        about
        | {name: cost[name] for name in ("level", "latency_ms", "ratio")}
        | dict(zip(("low", "high"), cost["ci95"] or (None, None), strict=True))
        for cost in trace["overheads"]
    ]


def judged(rows: pd.DataFrame) -> tuple[int, list[str]]:
    """The exit code and the words; rows of one backend. Each model counts as often as it stands for one of the 37."""
    deepest: list[Any] = rows[rows["level"] == "layer"].to_dict("records")
    costs = [float(row["ratio"]) for row in deepest for _ in range(row["names"])]
    # Of a model of whose layers nothing is told there is none, or NaN beside others: it is within no bound.
    shares = [
        math.nan if (share := row["explained_ratio"]) is None else float(share)
        for row in deepest
        for _ in range(row["names"])
    ]
    if not costs:
        return 2, ["not judged: no model has layers"]
    adding, close = (sum(low <= share <= high for share in shares) for low, high in (ADDS_UP, CLOSE))
    of_model: list[Any] = rows[rows["level"] == "model"].to_dict("records")
    alike = sum(row["names"] for row in of_model if CLOSE[0] <= row["ratio"] <= CLOSE[1])
    cost = median(costs)
    whole = len(costs) == NAMES
    good = cost <= LARGEST_MEDIAN, adding >= LEAST, alike >= LEAST
    verdicts = ["passed" if each else "FAILED" for each in good] if whole else ["not judged"] * 3
    words = [
        f"layer level: {cost:.3f} in the median of {len(costs)} of {NAMES} models "
        f"(limit {LARGEST_MEDIAN}): {verdicts[0]}",
        f"layers add up to {ADDS_UP[0]:.0%} to {ADDS_UP[1]:.0%} of the run: {adding} of {len(shares)} "
        f"(at least {LEAST} of {NAMES}; within 3%: {close}): {verdicts[1]}",
        f"latency of the model as a traced session tells it, by the untraced one, within 3%: {alike} of {len(costs)} "
        f"(at least {LEAST} of {NAMES}): {verdicts[2]}",
    ]
    return (2 if not whole else 0 if all(good) else 1), words


def main() -> int:
    """Measure what is missing, print all, judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--backend", choices=BACKENDS, default="onnxruntime")
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("build/layers"))
    parser.add_argument("--rows", type=Path, default=Path("build/layers.parquet"), help="Raw rows, Parquet.")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    data_dir: Path = options.data.resolve()
    rows = pd.read_parquet(options.rows) if options.rows.exists() else pd.DataFrame()
    for entry in read(CATALOGUE).chosen(options.models):
        known = len(rows) and ((rows["model"] == entry.model) & (rows["backend"] == options.backend)).any()
        if not entry.paper or (known and not options.again):
            continue
        try:
            new = measured(entry, options.backend, options.requests, options.rounds, data_dir)
        except (NoResults, InferBenchError, json.JSONDecodeError) as error:
            print(f"{entry.model}: not measured: {error}", flush=True)
            continue
        if known:
            rows = rows[(rows["model"] != entry.model) | (rows["backend"] != options.backend)]
        rows = pd.concat([rows, pd.DataFrame(new)], ignore_index=True)
        options.rows.parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(options.rows)
        print(_line(new), flush=True)
    own = rows[rows["backend"] == options.backend] if len(rows) else rows
    if not len(own):
        print("not judged: nothing was measured")
        return 2
    code, words = judged(own)
    print("\n".join(words))
    return code


def _line(rows: list[dict[str, Any]]) -> str:
    levels = ", ".join(
        f"{row['level']} {row['ratio']:.3f}"
        + (f" ({row['low']:.3f} to {row['high']:.3f})" if row["low"] else "")
        for row in rows[1:]
    )
    first = rows[0]
    share = first["explained_ratio"]
    added = (
        "nothing is told of its layers"
        if share is None
        else f"{first['layers']} layers add up to {share:.1%}"
    )
    return f"{first['model']}: {first['latency_ms']:.4g} ms without; {levels}; {added}"


if __name__ == "__main__":
    raise SystemExit(main())
