"""Whether two workers evaluate 10,000 pictures in at most 0.6 of one worker's time.

    python -m benchmarks.mlmodelscope.in_parts [--rounds 3] [--data FOLDER] [--rows FILE]

A real system in a data directory of its own (`inferbench up --workers 2`, each with cores of its own). In each round
the shipped submission of Fashion-MNIST's 10,000 held-out pictures is sent twice (`inferbench submit --wait`): whole, to
one device, and in two parts, one for each, in turns. From the first stage on a device to the last one's end counts:
what lies before (the model and its requests) is made once. The parts together must give the whole's measures. Passed
where the median of the rounds' ratios is at most 0.6. Exit code 1 where it failed, 2 where there are fewer than two
cores or a run is not valid.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import yaml

from benchmarks.submitted import COMMAND, environment_of, system
from inferbench_tasks.analysis.evaluations.listed import evaluation_of
from inferbench_tasks.analysis.evaluations.stored import together_stored
from inferbench_tasks.perfdb.store import PerfDB

LARGEST_RATIO = 0.6
FILE = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "evaluate" / "fashion-in-parts.yaml"
ON_A_DEVICE = ("serve", "evaluate", "collect", "release")
_LIMIT_S = 1800.0


class NotValid(Exception):
    """A run ended otherwise: its verdict."""


def main() -> int:
    """Measure and judge; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("build/in-parts"))
    parser.add_argument(
        "--rows", type=Path, default=Path("build/in-parts.parquet"), help="Raw rows, Parquet."
    )
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("not judged: two workers need two cores")
        return 2
    data_dir: Path = options.data.resolve()
    data_dir.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with system(data_dir, 2), PerfDB.connect(None, data_dir) as db:
        _sent(db, data_dir, "whole")  # makes the model and its requests, and is not counted
        for number in range(options.rounds):
            order = ("whole", "parts") if number % 2 == 0 else ("parts", "whole")
            rows += [{"round": number, **_sent(db, data_dir, name)} for name in order]
            print(json.dumps(rows[-2:], default=str), flush=True)
    table = pd.DataFrame(rows)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(options.rows)
    return _judge(table)


def _sent(db: PerfDB, data_dir: Path, name: str) -> dict[str, Any]:
    """One submission to its end: seconds on devices, verdicts, and how many pictures were named rightly."""
    submission = yaml.safe_load(FILE.read_text(encoding="utf-8")) | {"name": f"in-parts-{name}"}
    if name == "whole":
        del submission["evaluate"]["parts"]
    path = data_dir / f"{submission['name']}.yaml"
    path.write_text(yaml.safe_dump(submission), encoding="utf-8")
    before = {run.run_id for run in db.find_runs({"submission.name": submission["name"]})}
    subprocess.run(
        [*COMMAND, "submit", str(path), "--wait", "-o", "json"],
        env=environment_of(data_dir), stdout=subprocess.DEVNULL, check=False, timeout=_LIMIT_S,
    )  # fmt: skip
    runs = [run for run in db.find_runs({"submission.name": submission["name"]}) if run.run_id not in before]
    stages = [stage for run in runs for stage in run.stages if stage.stage in ON_A_DEVICE and stage.ended_at]
    results = [db.get_result(run.run_id) for run in runs]
    if bad := [f"{result.run_id}: {result.verdict}" for result in results if not result.valid]:
        raise NotValid("; ".join(bad))
    if name == "parts":
        measures = together_stored(db, [run.run_id for run in runs])["measures"]
    else:
        measures = evaluation_of(results[0])["under_load"]["measures"]
    ends = [stage.ended_at for stage in stages if stage.ended_at]
    return {
        "what": name,
        "seconds": (max(ends) - min(stage.started_at for stage in stages)).total_seconds(),
        "devices": len({device for stage in stages for device in stage.devices}),
        "top1_ratio": measures["top1_ratio"]["value"],
        "macro_f1": measures["macro_f1"]["value"],
    }


def _judge(table: pd.DataFrame) -> int:
    print(table.to_string(index=False))
    seconds = table.pivot(index="round", columns="what", values="seconds")
    ratios = seconds["parts"] / seconds["whole"]
    alike = len(table[["top1_ratio", "macro_f1"]].round(12).drop_duplicates()) == 1
    at_once = (table.loc[table["what"] == "parts", "devices"] == 2).all()
    ratio = median(ratios)
    passed = ratio <= LARGEST_RATIO and alike and at_once
    print(
        f"two workers by one: {ratio:.3f} (limit {LARGEST_RATIO}; rounds {', '.join(f'{r:.3f}' for r in ratios)}); "
        f"measures {'the same' if alike else 'DIFFER'}; parts on two devices: {'yes' if at_once else 'NO'}: "
        f"{'passed' if passed else 'FAILED'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        code = main()
    except NotValid as why:
        print(f"not judged: {why}")
        code = 2
    raise SystemExit(code)
