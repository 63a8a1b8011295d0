"""Ten models predicted at batch sizes, threads and a precision of their own: gate 4.

    python -m benchmarks.bricks.transfer [--only PART ...] [--data FOLDER] [--rows FILE] [--minutes 60]

Each part is a submission of kind bricks, run by `inferbench run --inline` in a data directory that stays: an ended run
goes on, and measures only what is missing.

* ``batches``: measured at 1, 2, 4 and 8; each model at 2 and 4 is predicted from its bricks at 1 and 8 alone, and set
  beside what it took there as a whole. Also how far interpolated bricks are off measured ones, summed: what of the
  error is the interpolation's.
* ``threads``: two threads, measured as two threads, at batch 1.
* ``int8``: the models in int8, at batch 1. LSTM can't be quantised; another model stands in its place.
* ``openvino``: the models by OpenVINO, from bricks that it was timed on, at batch 1.

Predicted is what users get: calibrated by three other models, never by itself. The error is the mean absolute one of
predicted over measured. Repeats of a model's own time have to agree within 5% (median over models and sizes), or the
part does not count; between 3 and 5% its gate is 1.5 times that spread. ``--rows`` keeps a row per model and size with
machine and versions. Exit code 1 where a part failed, else 2 where one does not count or was left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.bricks import rows as raw_rows
from benchmarks.bricks.fifty import LARGEST_SPREAD_RATIO, SPREAD_THAT_COUNTS_RATIO, SPREADS_OF_A_GATE
from benchmarks.submitted import NoResults, submitted
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.documents import each_of
from inferbench_tasks.brick_jobs.interpolation import Line, Sizes, interpolation, measured_sizes
from inferbench_tasks.brick_jobs.predictions import NONE, predictions
from inferbench_tasks.brick_jobs.result import PredictedModel
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.measure.session import cores_for, setting
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.perfdb.store import PerfDB

MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "efficientnet-lite0", "squeezenet1.1", "inception-v1", "vit-tiny",
    "bert-small", "mixer-small", "lstm",
)  # fmt: skip
QUANTISABLE = (*MODELS[:-1], "bert-mini")
MEASURED_AT, PREDICTED_AT = (1, 8), (2, 4)
CALIBRATING = 3


@dataclass(frozen=True)
class Part:
    """``gate_ratio``: the largest mean absolute error; ``rows``: what is predicted of the stored times."""

    name: str
    bricks: dict[str, Any]
    gate_ratio: float
    rows: Callable[[PerfDBResults, Part], Iterator[dict[str, Any]]]
    models: tuple[str, ...] = MODELS

    @property
    def runtime(self) -> str:
        """What its bricks and models are executed by."""
        return str(self.bricks.get("runtime", DEFAULT))


def main() -> int:
    """Run each part, then judge it; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], metavar="PART")
    parser.add_argument("--data", type=Path, default=Path("build/transfer"))
    raw_rows.options(parser, "transfer")
    options = parser.parse_args()
    chosen = [part for part in PARTS if part.name in (options.only or [part.name])]
    rows: list[dict[str, Any]] = []
    end = raw_rows.ends_at(options)
    for part in chosen:
        if (left_s := end - time.monotonic()) > 0:  # what is stored of the others is judged all the same
            _measure(part, options.data.resolve(), left_s / 60)
        threads = part.bricks.get("threads", 1)
        with PerfDB.connect(None, options.data.resolve()) as db:
            results = PerfDBResults(db, setting(cores_for(threads), threads, part.runtime))
            rows += part.rows(results, part)
            _keep(rows, options.rows)
    return _judge(chosen, pd.DataFrame(rows))


def _measure(part: Part, data_dir: Path, minutes: float) -> None:
    submission = {
        "kind": "bricks", "name": f"transfer-{part.name}",
        "models": [{"model": {"kind": "zoo", "name": name}} for name in part.models],
        "bricks": {"granularity": 1, **part.bricks}, "measure": {"reuse": "always", "shard_s": 120},
        "validate": {"models": "all", "calibrate_on": CALIBRATING},
    }  # fmt: skip
    try:
        submitted(submission, data_dir, minutes)
    except NoResults as error:
        print(f"{part.name}: {error}")


def _keep(rows: list[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(path)


def _stored(results: PerfDBResults, part: Part) -> dict[str, Sizes]:
    """Each model at the sizes that all of it is measured at; of each the cut that was made last."""
    found = {}
    for name in part.models:
        documents = results.cuts_at("1", "runtime", part.bricks.get("precision", "fp32"), {"model": name})
        if documents:
            newest = CutModel(
                at=0, name=name, copies=1, task=None, digest=documents[0]["digest"], batch_size=1, granularity="1",
                layers=0, operators=(), whole="", parts=(), needs=(), precision=part.bricks.get("precision", "fp32"),
                shapes=tuple(each_of(documents[0])[-1].get("shapes") or ()),
            )  # fmt: skip
            found[name] = measured_sizes(results, newest)
    return found


def _between(results: PerfDBResults, part: Part) -> Iterator[dict[str, Any]]:
    """At sizes between, from the bricks at the two sizes alone."""
    low, high = MEASURED_AT
    for name, (sizes, times) in _stored(results, part).items():
        for batch in PREDICTED_AT:
            if not {low, high, batch} <= sizes.keys() or sizes[batch].whole not in times:
                continue
            line = Line(sizes[low], sizes[high], times)
            cut = line.at(batch)
            made = interpolation(results, cut, line, set(cut.parts) - times.keys())
            if made is None:
                continue
            known = {**times, **made.times}
            for _, theirs in made.calibrating:
                known |= {identity: time for identity, time in theirs.items() if identity not in known}
            others = [
                other.model_copy(update={"at": at}) for at, (other, _) in enumerate(made.calibrating, 1)
            ]
            [one] = predictions(
                [cut, *others],
                known,
                CALIBRATING,
                unmeasured={0: {"interpolated": made.off} if made.times else NONE},
            )[0]
            measured = prediction.constructed(
                [times[p] for p in sizes[batch].parts], sizes[batch].needs, one.state
            )
            yield _row(part, name, one, times[sizes[batch].whole], results) | {
                "interpolated_over_measured_bricks": one.constructed.ms * 1e6 / measured.ns
            }


def _at_one(results: PerfDBResults, part: Part) -> Iterator[dict[str, Any]]:
    """At batch 1, from bricks of the same threads and precision."""
    cuts, known = [], dict[str, Result]()
    for at, (sizes, times) in enumerate(_stored(results, part).values()):
        if 1 in sizes and sizes[1].whole in times:
            cuts.append(sizes[1].model_copy(update={"at": at}))
            known |= times
    made = predictions(cuts, known, CALIBRATING)
    for cut in cuts:
        yield _row(part, cut.name, made[cut.at][0], known[cut.whole], results)


def _row(
    part: Part, model: str, one: PredictedModel, whole: Result, results: PerfDBResults
) -> dict[str, Any]:
    rounds_ms = [ns / 1e6 for ns in whole.rounds_ns["warm"]]
    return {
        "part": part.name, "model": model, "batch_size": one.batch_size, "measured_ms": float(np.mean(rounds_ms)),
        "rounds_ms": rounds_ms, "constructed_ms": one.constructed.ms, "predicted_ms": one.best.ms,
        "low_ms": one.best.low_ms, "high_ms": one.best.high_ms, "calibrated": one.calibrated is not None,
        **results.setting.model_dump(mode="json"),
    }  # fmt: skip


def _judge(parts: list[Part], rows: pd.DataFrame) -> int:
    """Print the table and a line for each part; the exit code."""
    console = Console(width=150)
    codes = [_judged(console, part, rows) for part in parts]
    for part in PARTS:
        if part not in parts:
            console.print(f"not judged: {part.name} (not asked for)")
            codes.append(2)
    return 1 if 1 in codes else max(codes)


def _judged(console: Console, part: Part, rows: pd.DataFrame) -> int:
    own = rows[rows["part"] == part.name] if len(rows) else rows
    wanted = len(part.models) * (len(PREDICTED_AT) if part.rows is _between else 1)
    if not len(own):
        console.print(
            f"{part.name}: does NOT count: no model has all of its times; run it again on a quiet machine"
        )
        return 2
    table = Table("part", "model", "batch", "measured ms", "rounds", "sum", "predicted", "holds", "line")
    for row in own.to_dict("records"):
        line = row.get("interpolated_over_measured_bricks")
        table.add_row(
            part.name, row["model"], str(row["batch_size"]), f"{row['measured_ms']:.3f}",
            f"{_spread(row['rounds_ms']):.1%}", f"{row['constructed_ms'] / row['measured_ms']:.3f}",
            f"{row['predicted_ms'] / row['measured_ms']:.3f}" + ("" if row["calibrated"] else " (not calibrated)"),
            "yes" if row["low_ms"] <= row["measured_ms"] <= row["high_ms"] else "no",
            "–" if line is None or np.isnan(line) else f"{line:.3f}",
        )  # fmt: skip
    console.print(table)
    spread = statistics.median(_spread(rounds) for rounds in own["rounds_ms"])
    if spread > LARGEST_SPREAD_RATIO:
        console.print(
            f"{part.name}: does NOT count: repeats of a model's own time differ by {spread:.1%} (median); "
            "measure it again"
        )
        return 2
    gate = max(
        part.gate_ratio, SPREADS_OF_A_GATE * spread if spread > SPREAD_THAT_COUNTS_RATIO else part.gate_ratio
    )
    error = float((own["predicted_ms"] / own["measured_ms"] - 1).abs().mean())
    console.print(
        f"{part.name}: mean absolute error {error:.2%}, allowed {gate:.1%}; {len(own)} of {wanted} predictions judged; "
        f"repeats differ by {spread:.1%} (median)"
    )
    if error > gate:
        console.print(f"{part.name}: FAILED")
        return 1
    if len(own) < wanted:
        console.print(f"{part.name}: does NOT count: some models have no times; run it again, and it goes on")
        return 2
    console.print(f"{part.name}: passed")
    return 0


def _spread(rounds_ms: list[float]) -> float:
    return max(rounds_ms) / min(rounds_ms) - 1


PARTS = (
    Part("batches", {"batch_sizes": [1, 2, 4, 8]}, 0.04, _between),
    Part("threads", {"threads": 2}, 0.06, _at_one),
    Part("int8", {"precision": "int8"}, 0.08, _at_one, QUANTISABLE),
    Part("openvino", {"runtime": "openvino"}, 0.10, _at_one),
)

if __name__ == "__main__":
    sys.exit(main())
