"""A seeded regression, end to end: 5 ms put into one place of a copy of the code; is it found, confirmed, attributed?

    python -m benchmarks.regression.seeded [preprocess] [inference] [transmit] [--pairs 5]

Real runs: the baseline is this checkout, the candidate a copy with one line changed, both started as processes,
in turns, by ``inferbench regress run``'s own code. Exit code 1 if any stage was not found.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.regression.workplace import workplace
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.ratio import MIN_PAIRS
from inferbench_tasks.regression.session import Night, run_night
from inferbench_tasks.regression.sides import PARTS, own_checkout

SUBMISSION = """
name: seeded-{stage}
model: {{kind: zoo, name: digits}}
load:
  arrivals: {{kind: closed_loop, concurrency: 1}}
  duration_s: {seconds}
  warmup_s: 0.5
  network: wifi
"""
#: Stage -> file, the line that is changed, what it becomes.
SEEDS = {
    "preprocess": (
        "inferbench_tasks/servers/http.py",
        "            received_ns = time.monotonic_ns()\n",
        "            received_ns = time.monotonic_ns()\n            await asyncio.sleep(0.005)\n",
    ),
    "inference": (
        "inferbench_tasks/servers/scheduler.py",
        "            outputs = engine.run(inputs)\n",
        "            time.sleep(0.005)\n            outputs = engine.run(inputs)\n",
    ),
    # Not in the proxy: it measures what it delays by itself, and takes that off.
    "transmit": ("configs/networks.yaml", "{name: wifi, latency_ms: 1,", "{name: wifi, latency_ms: 3.5,"),
}


def seeded_copy(stage: str, folder: Path) -> Path:
    """A copy of the code with 5 ms more in that stage; AssertionError if the line is not there any more."""
    for part in PARTS:
        shutil.copytree(own_checkout() / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    file, line, slower = SEEDS[stage]
    text = (folder / file).read_text()
    assert text.count(line) == 1, f"{file} no longer holds the line to change: {line.strip()}"
    (folder / file).write_text(text.replace(line, slower))
    return folder


def try_stage(stage: str, pairs: int, seconds: float, db: PerfDB, data_dir: Path) -> bool:
    """One seeded regression: whether it was confirmed and attributed to the right stage."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="inferbench-seeded-") as folder:
        file = Path(folder) / "submission.yaml"
        file.write_text(SUBMISSION.format(stage=stage, seconds=seconds))
        candidate = seeded_copy(stage, Path(folder) / "tree")
        night = Night(file=file, pairs=pairs, baseline=own_checkout(), candidate=candidate)
        outcome = run_night(night, db, data_dir, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    medians = [change for change in outcome["regressions"] if change["series"].endswith("-p50_ms")]
    for change in medians:
        parts = ", ".join(f"{p['name']} {p['change_ms']:+.2f} ms" for p in change["parts"])
        print(
            f"{stage}: confirmed {change['change_percent']:+.0f}% (p {change['p_value']:.1g}) in {change['stage']}; "
            f"{parts}; {time.monotonic() - began:.0f} s",
            flush=True,
        )
    if not medians:
        print(f"{stage}: NOT confirmed; suspicions: {outcome['suspicions']}", flush=True)
    return [change["stage"] for change in medians] == [stage]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", default=[], help=f"of {', '.join(SEEDS)}; all by default")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="measured load of each run")
    options = parser.parse_args()
    if options.pairs < MIN_PAIRS:
        parser.error(f"--pairs: at least {MIN_PAIRS}, fewer can't show anything")
    with workplace() as (db, data_dir):
        good = [
            try_stage(stage, options.pairs, options.seconds, db, data_dir)
            for stage in options.stages or list(SEEDS)
        ]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
