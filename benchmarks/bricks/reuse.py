"""A second submission that shares bricks measures only the missing ones, a third none, a new runtime all (gate 6).

    python -m benchmarks.bricks.reuse [--other-runtime FOLDER] [--rows FILE] [--minutes 60]

Three submissions of small convolution nets by `inferbench run --inline` in a data directory of its own: A and B; A, B
and C, which shares layers with them; A, B and C again. A row each: bricks needed, known before, measured. Passed where
the second measured only what was missing, the third none within 60 s, and none is stored twice.

A fourth runs the third once more with another version of ONNX Runtime, which lies in a folder of its own (made by
``pip install --target FOLDER --no-deps onnxruntime==VERSION``): it has to measure all again, and both stay. Without
``--other-runtime`` that is not judged.

``--rows`` keeps a row per submission (Parquet). Exit code 1 where any failed, 2 where the machine was not quiet enough
for the first to keep anything, or something was not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.store import RESULTS
from inferbench_tasks.perfdb.store import PerfDB

LIMIT_S, TRIES = 60.0, 5
_CNN = {"kind": "canonical", "family": "cnn", "training": {"epochs": 0}}
#: The third has other channels: some layers as the first two, some of its own.
MODELS = [_CNN | {"layers": 1}, _CNN | {"layers": 2}, _CNN | {"layers": 2, "channels": 24}]
SUBMISSIONS = (("A, B", MODELS[:2]), ("A, B, C", MODELS), ("A, B, C again", MODELS))
OTHER = "A, B, C, another runtime"


def main() -> int:
    """Run the four; see the module."""
    import yaml

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other-runtime", type=Path, help="A folder with another version of onnxruntime.")
    raw_rows.options(parser, "reuse", "submission")
    options = parser.parse_args()
    end = raw_rows.ends_at(options)
    other: Path | None = options.other_runtime and options.other_runtime.resolve()
    if other is not None and not (other / "onnxruntime").is_dir():
        parser.error(f"--other-runtime {other}: there is no onnxruntime in it")

    with tempfile.TemporaryDirectory(prefix="inferbench-reuse-") as folder:
        data_dir = Path(folder, "data")
        environment = {**os.environ, settings.DATA_DIR: str(data_dir)}
        environment.pop(settings.PERFDB_URI, None)
        try:
            rows = []
            for name, models in (*SUBMISSIONS, *([(OTHER, MODELS)] if other else [])):
                if time.monotonic() > end:
                    break
                if name == OTHER:
                    environment["PYTHONPATH"] = os.pathsep.join(
                        [str(other), *filter(None, [environment.get("PYTHONPATH")])]
                    )
                path = Path(folder, "reuse.yaml")
                path.write_text(
                    yaml.safe_dump(
                        {
                            "kind": "bricks", "name": "reuse", "models": [{"model": model} for model in models],
                            "measure": {"runs": 15},
                        }
                    )
                )  # fmt: skip
                for _ in range(TRIES):
                    row = _run(path, environment, data_dir)
                    if row["disturbed"] == 0:
                        break
                rows.append({**raw_rows.where("onnx"), "submission": name, **row})
                print(json.dumps(rows[-1]), flush=True)
            raw_rows.write(options.rows, rows)
            return _judge(rows)
        finally:
            subprocess.run(
                [*_COMMAND, "perfdb", "stop"], env=environment, check=False, stdout=subprocess.DEVNULL
            )


_COMMAND = [sys.executable, "-m", "inferbench_tasks.cli.main"]


def _run(path: Path, environment: dict[str, str], data_dir: Path) -> dict[str, Any]:
    began = time.monotonic()
    command = [*_COMMAND, "run", "--inline", str(path), "-o", "json"]
    answer = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    seconds = time.monotonic() - began
    results = json.loads(answer.stdout)
    cut = next(result for result in results if result["role"] == "cut")["counts"]
    with PerfDB.connect(None, data_dir) as db:
        stored = list(db.collection(RESULTS).find({"usable": True}, {"identity": 1, "setting_id": 1}))
    return {
        "unique": cut["unique"], "wholes_and_bricks_measured": cut["todo"], "known_before": cut["reused"],
        "stored": len(stored), "stored_once": len({(one["setting_id"], one["identity"]) for one in stored}),
        "seconds": round(seconds, 1),
        "disturbed": sum(result["verdict"].startswith("disturbed") for result in results),
        "failed": sum(result["verdict"].startswith("failed") for result in results),
        "runtime": next(result for result in results if result["role"] == "cut")["setting"].get("runtime"),
    }  # fmt: skip


def _judge(rows: list[dict[str, Any]]) -> int:
    if any(row["disturbed"] or row["failed"] for row in rows) or len(rows) < len(SUBMISSIONS):
        print("not judged: a submission was disturbed, failed, or not begun")
        return 2
    first, second, third = rows[:3]
    checks = {
        "the second measured the missing ones alone": first["stored"] + second["wholes_and_bricks_measured"]
        == second["stored"] and second["known_before"] >= first["stored"] > 0,
        "the third measured none": third["wholes_and_bricks_measured"] == 0 and third["stored"] == second["stored"],
        f"the third ended within {LIMIT_S:.0f} s": third["seconds"] <= LIMIT_S,
        "none is stored twice": all(row["stored"] == row["stored_once"] for row in rows),
    }  # fmt: skip
    if fourth := next((row for row in rows if row["submission"] == OTHER), None):
        checks[f"{fourth['runtime']} after {third['runtime']} measured all again, and both stay"] = (
            fourth["runtime"] != third["runtime"] and fourth["known_before"] == 0
            and fourth["wholes_and_bricks_measured"] > 0
            and fourth["stored"] == third["stored"] + fourth["wholes_and_bricks_measured"]
        )  # fmt: skip
    for name, held in checks.items():
        print(f"{name}: {'passed' if held else 'FAILED'}")
    if fourth is None:
        print("a new runtime's version measures all again: not judged, there is none (--other-runtime)")
    return 1 if not all(checks.values()) else 0 if fourth else 2


if __name__ == "__main__":
    sys.exit(main())
