"""Built-in models predicted from their bricks and timed as a whole, on this machine.

    python -m benchmarks.bricks.zoo [MODEL ...] [--threads 1] [-G 1]

Each model is timed among its bricks (``inferbench bricks predict --whole``); what was measured before is used again, so
an ended run goes on where it was. Then a row per model: constructed over measured, warm and streamed; the same
calibrated by the other models (leave-one-out), and whether the interval holds the measured time. Below it the
geometric mean, the mean absolute error, the share within 10%, and the speed-up as the paper counts it: the models'
times over those of all their unique bricks, each once.

Exit code 1 where the session does not count: a model whose rounds differ by more than 5% in the median, or that was
disturbed. These are a handful of models: the gates of fifty are not judged here.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.session import cores_for, setting
from inferbench_tasks.bricks.prediction import measured
from inferbench_tasks.perfdb.store import PerfDB

MODELS = (
    "resnet50", "mobilenet_v2", "efficientnet-lite0", "detector", "cyclegan", "lstm", "bert-base", "digits",
)  # fmt: skip
LARGEST_SPREAD_RATIO, NEAR_RATIO = 0.05, 0.10


def main() -> int:
    """Measure what is missing, then compare; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-G", dest="granularity", default="1")
    options = parser.parse_args()
    common = ["--threads", str(options.threads), "-G", options.granularity, "--whole"]
    rows: list[dict[str, Any]] = []
    for again in (False, True):  # the second time all other models calibrate each
        rows = []
        for model in options.models:
            row = _predicted(model, common)
            if not again:
                print(f"{model}: {row['measured_now']} of {row['unique']} bricks measured now", flush=True)
            rows.append(row)
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        kept = PerfDBResults(db, setting(cores_for(options.threads), options.threads))
        return _report(rows, kept, options.granularity)


def _predicted(model: str, common: list[str]) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "inferbench_tasks.cli.main",
        "bricks",
        "predict",
        model,
        *common,
        "-o",
        "json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    [row] = json.loads(done.stdout)
    return dict(row)


def _report(rows: list[dict[str, Any]], results: PerfDBResults, granularity: str) -> int:
    print(
        f"\n{'model':<16}{'bricks':>7}{'unique':>7}{'measured ms':>13}{'rounds':>8}{'warm':>8}{'streamed':>10}"
        f"{'calibrated':>12}{'interval':>10}"
    )
    spreads, warm, streamed, calibrated, holds = [], [], [], [], []
    for row in rows:
        whole = row["measured_ms"]
        times = row["measured_rounds_ms"]
        spread = max(times) / min(times) - 1
        spreads.append(spread)
        warm.append(row["warm_ms"] / whole)
        streamed.append(row["streamed_ms"] / whole)
        cells = f"{'–':>12}{'–':>10}"
        if row["calibrated_by"]:
            calibrated.append(row["predicted_ms"] / whole)
            low, high = row["predicted_interval_ms"]
            holds.append(low <= whole <= high)
            cells = f"{calibrated[-1]:>12.3f}{'holds' if holds[-1] else 'misses':>10}"
        print(
            f"{row['model']:<16}{row['bricks']:>7}{row['unique']:>7}{whole:>13.3f}{spread:>8.1%}{warm[-1]:>8.3f}"
            f"{streamed[-1]:>10.3f}{cells}{'  DISTURBED' if row['disturbed'] else ''}"
        )
    print()
    for name, ratios in (("warm", warm), ("streamed", streamed), ("calibrated", calibrated)):
        if ratios:
            errors = [abs(ratio - 1) for ratio in ratios]
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            near = sum(error <= NEAR_RATIO for error in errors)
            print(
                f"{name:<11} geometric mean {mean:.3f}, mean absolute error {statistics.fmean(errors):.1%}, "
                f"within 10%: {near} of {len(errors)}"
            )
    if holds:
        print(f"intervals hold the measured time for {sum(holds)} of {len(holds)}")
    _speed_up(results, granularity)
    spread = statistics.median(spreads)
    counts = spread <= LARGEST_SPREAD_RATIO and not any(row["disturbed"] for row in rows)
    word = "counts" if counts else "does NOT count"
    print(f"repeats of a model's own time differ by {spread:.1%} (median): the session {word}")
    return 0 if counts else 1


def _speed_up(results: PerfDBResults, granularity: str) -> None:
    """The times of all models that are kept with this cut over those of their unique bricks, each once."""
    wholes = [whole for whole in results.wholes() if granularity in whole.parts]
    names = sorted({name for whole in wholes for name in whole.parts[granularity]})
    bricks = list(results.get_many(names).values())
    if len(bricks) < len(names):
        print(f"no speed-up: {len(names) - len(bricks)} of {len(names)} unique bricks are not kept")
        return
    whole_ns = sum(measured(whole).ns for whole in wholes)
    bricks_ns = sum(measured(brick).ns for brick in bricks)
    if bricks_ns:
        print(
            f"speed-up as the paper counts it: {whole_ns / bricks_ns:.2f} ({len(wholes)} models, {len(bricks)} unique "
            f"bricks)"
        )


if __name__ == "__main__":
    sys.exit(main())
