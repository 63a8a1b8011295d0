"""A second submission that shares bricks measures only the missing ones, a third none (gate 6).

    python -m benchmarks.bricks.reuse

Three submissions of small convolution nets by `inferbench run --inline` in a data directory of its own: A and B; A, B
and C, which shares layers with them; A, B and C again. A row each: bricks needed, known before, measured. Passed where
the second measured only what was missing, the third none within 60 s, and none is stored twice.
A new runtime's version is another setting, which has nothing (`tests/integration/test_brick_store.py` holds that).
Exit code 1 where any failed, 2 where the machine was not quiet enough for the first to keep anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.store import RESULTS
from inferbench_tasks.perfdb.store import PerfDB

LIMIT_S, TRIES = 60.0, 5
_CNN = {"kind": "canonical", "family": "cnn", "training": {"epochs": 0}}
#: The third has other channels: some layers as the first two, some of its own.
MODELS = [_CNN | {"layers": 1}, _CNN | {"layers": 2}, _CNN | {"layers": 2, "channels": 24}]


def main() -> int:
    """Run the three; see the module."""
    import yaml

    with tempfile.TemporaryDirectory(prefix="inferbench-reuse-") as folder:
        data_dir = Path(folder, "data")
        environment = {**os.environ, settings.DATA_DIR: str(data_dir)}
        environment.pop(settings.PERFDB_URI, None)
        try:
            rows = []
            for name, models in (("A, B", MODELS[:2]), ("A, B, C", MODELS), ("A, B, C again", MODELS)):
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
                rows.append({"submission": name, **row})
                print(json.dumps(rows[-1]), flush=True)
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
        stored = list(db.collection(RESULTS).find({"usable": True}, {"identity": 1, "session": 1}))
    return {
        "unique": cut["unique"], "wholes_and_bricks_measured": cut["todo"], "known_before": cut["reused"],
        "stored": len(stored), "stored_once": len({one["identity"] for one in stored}), "seconds": round(seconds, 1),
        "disturbed": sum(result["verdict"].startswith("disturbed") for result in results),
    }  # fmt: skip


def _judge(rows: list[dict[str, Any]]) -> int:
    first, second, third = rows
    if any(row["disturbed"] for row in rows):
        print("the machine was not quiet: nothing can be said")
        return 2
    checks = {
        "the second measured the missing ones alone": first["stored"] + second["wholes_and_bricks_measured"]
        == second["stored"] and second["known_before"] >= first["stored"] > 0,
        "the third measured none": third["wholes_and_bricks_measured"] == 0 and third["stored"] == second["stored"],
        f"the third ended within {LIMIT_S:.0f} s": third["seconds"] <= LIMIT_S,
        "none is stored twice": all(row["stored"] == row["stored_once"] for row in rows),
    }  # fmt: skip
    for name, held in checks.items():
        print(f"{name}: {'passed' if held else 'FAILED'}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
