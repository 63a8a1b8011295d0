"""Shards on two devices at once, and a worker that is killed amid one (gate 7).

    python -m benchmarks.bricks.two_devices [--models squeezenet1.1 ...] [--data FOLDER] [--rows FILE] [--minutes 60]

Real systems in a data directory of their own: `inferbench up --workers 2`, `inferbench submit FILE --wait` of a
submission of kind bricks that measures everything anew (``reuse: never``), three times:

* ``two``: on two devices, each with cores of its own. Passed where shards of both ran at the same time, and all of them
  took at most 0.6 of what they take on one;
* ``killed``: the same, and once a shard's session times bricks (its journal grows), its device's worker gets kill -9,
  with every process below it. Passed where each brick that was to be measured has exactly one usable time of this
  submission in PerfDB, every model is predicted with nothing missing, and nothing failed;
* ``one``: by `up --workers 1`, what ``two`` is compared with.

From the first shard's start to the last one's end counts: what lies before (making, converting, cutting) is no
device's. ``--rows`` keeps a row per submission and shard (Parquet). Exit code 1 where any failed, 2 where one was
disturbed or not begun, or where there are fewer than two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.bricks import rows as raw_rows
from benchmarks.submitted import COMMAND, environment_of, system
from inferbench_tasks.brick_jobs.cutting import read
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.brick_jobs.store import RESULTS, session_name
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.perfdb.store import PerfDB

LARGEST_RATIO = 0.6
MODELS = ("squeezenet1.1", "mobilenet_v2", "resnet18", "efficientnet-lite0")
_POLL_S, _LIMIT_S = 0.2, 1800.0


def main() -> int:
    """Run the three; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--shard-s", type=float, default=15.0)
    parser.add_argument("--data", type=Path, default=Path("build/two-devices"))
    raw_rows.options(parser, "two-devices", "submission")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("not judged: two devices need two cores")
        return 2
    end = raw_rows.ends_at(options)
    data_dir: Path = options.data.resolve()
    data_dir.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    for workers, names in ((2, ("two", "killed")), (1, ("one",))):
        if time.monotonic() > end:
            break
        with system(data_dir, workers), PerfDB.connect(None, data_dir) as db:
            for name in names:
                if time.monotonic() > end:
                    break
                found[name] = _submitted(db, data_dir, name, options.models, options.shard_s)
                print(
                    json.dumps(found[name] | {"shards": len(found[name]["shards"])}, default=str), flush=True
                )
    of = raw_rows.where("onnxruntime", "apache-airflow")
    raw_rows.write(
        options.rows,
        [{**of, "submission": name, **shard} for name, one in found.items() for shard in one["shards"]],
    )
    return _judge(found)


def _submitted(
    db: PerfDB, data_dir: Path, name: str, models: Sequence[str], shard_s: float
) -> dict[str, Any]:
    """What came of one submission; ``killed``: the run and attempt that were killed, if any."""
    submission = {
        "kind": "bricks", "name": f"two-devices-{name}",
        "models": [{"model": {"kind": "zoo", "name": model}} for model in models],
        "measure": {"reuse": "never", "shard_s": shard_s}, "validate": {"models": "none"},
    }  # fmt: skip
    path = data_dir / f"two-devices-{name}.yaml"
    path.write_text(yaml.safe_dump(submission), encoding="utf-8")
    before = {run.run_id for run in db.find_runs({"submission.name": submission["name"]})}
    killer = _Killer(db, data_dir, str(submission["name"]), before) if name == "killed" else None
    if killer:
        killer.start()
    done = subprocess.run(
        [*COMMAND, "submit", str(path), "--wait", "-o", "json"],
        env=environment_of(data_dir), stdout=subprocess.PIPE, text=True, check=False, timeout=_LIMIT_S,
    )  # fmt: skip
    if killer:
        killer.over.set()
        killer.join()
    runs = [run for run in db.find_runs({"submission.name": submission["name"]}) if run.run_id not in before]
    return {
        "exit_code": done.returncode, "killed": killer.killed if killer else None,
        **_measured(db, data_dir, runs),
    }  # fmt: skip


class _Killer(threading.Thread):
    """Kills the worker of the first device whose session has timed bricks, with every process below it."""

    def __init__(self, db: PerfDB, data_dir: Path, name: str, before: set[str]) -> None:
        super().__init__(daemon=True)
        self._db, self._sessions = db, data_dir / "bricks" / "sessions"
        self._name, self._before = name, before
        self._since = time.time()
        self.over = threading.Event()
        self.killed: dict[str, Any] | None = None

    def run(self) -> None:
        """Until it has killed one, or is told that all is over."""
        while not self.over.wait(_POLL_S):
            for run in self._db.find_runs({"submission.name": self._name, "status": "running"}):
                stage = run.stages[-1] if run.stages else None
                if (
                    run.run_id in self._before
                    or stage is None
                    or stage.stage != "measure"
                    or not stage.devices
                ):
                    continue
                if stage.ended_at is not None or not self._amid():
                    continue
                [device] = [d for d in Cluster(self._db).devices() if d.device_id == stage.devices[0]]
                worker = psutil.Process(device.pid)
                tree = [worker, *worker.children(recursive=True)]
                for process in tree:
                    try:
                        process.send_signal(signal.SIGKILL)
                    except psutil.NoSuchProcess:
                        continue
                self.killed = {
                    "run_id": run.run_id, "attempt": stage.attempt, "device": device.device_id, "processes": len(tree),
                }  # fmt: skip
                print(f"killed: {json.dumps(self.killed)}", flush=True)
                return

    def _amid(self) -> bool:
        """Whether a session of now has written down a brick that it timed."""
        return any(
            path.stat().st_mtime > self._since
            and '"item"' in path.read_text(encoding="utf-8", errors="replace")
            for path in self._sessions.glob("*")
            if path.is_file()
        )


def _measured(db: PerfDB, data_dir: Path, runs: Sequence[Any]) -> dict[str, Any]:
    """When each shard was measured where, and what is stored of it."""
    shards = []
    for run in sorted(runs, key=lambda one: one.run_id):
        ended = [one for one in run.stages if one.stage == "measure" and one.ended_at is not None]
        if run.job["part"]["role"] == "shard" and ended:
            began = min(one.started_at for one in run.stages if one.stage == "measure")
            shards.append(
                {
                    "run_id": run.run_id, "device": ",".join(ended[-1].devices), "began": began,
                    "ended": ended[-1].ended_at,
                    "tries": sum(one.stage == "measure" for one in run.stages), "verdict": str(run.verdict),
                }
            )  # fmt: skip
    [cut] = [run.run_id for run in runs if run.job["part"]["role"] == "cut"]
    cutting = read(data_dir / "runs" / cut)
    wanted = {one.item.name for one in cutting.todo} if cutting else set()
    starts = tuple(session_name(run.run_id, "") for run in runs)
    stored = [
        one
        for one in db.collection(RESULTS).find(
            {"usable": True, "identity": {"$in": sorted(wanted)}}, {"identity": 1, "session": 1}
        )
        if one["session"].startswith(starts)
    ]
    counts = Counter(one["identity"] for one in stored)
    results = db.results_of(BricksResult, {"run_id": {"$in": [run.run_id for run in runs]}}, ())
    models = [one for one in results if one.role == "model"]
    return {
        "wanted": len(wanted), "lost": len(wanted - counts.keys()), "twice": sum(n > 1 for n in counts.values()),
        "uncovered": sum(
            not one.predictions or any(made.coverage_ratio < 1 for made in one.predictions) for one in models
        ),
        "disturbed": sum(not one.verdict.valid and one.verdict.bounds_only for one in results),
        "failed": sorted(
            f"{one.run_id}: {one.verdict}"
            for one in results
            if not one.verdict.valid and not one.verdict.bounds_only
        ),
        "shards": shards,
        "makespan_s": _makespan_s(shards),
    }  # fmt: skip


def _makespan_s(shards: Sequence[dict[str, Any]]) -> float | None:
    if not shards:
        return None
    began, ended = min(one["began"] for one in shards), max(one["ended"] for one in shards)
    return float((ended - began).total_seconds())


def _overlap(shards: Sequence[dict[str, Any]]) -> bool:
    """Whether two were measured at once, on two devices."""
    return any(
        one["device"] != other["device"] and one["began"] < other["ended"] and other["began"] < one["ended"]
        for one in shards
        for other in shards
    )


def _judge(found: dict[str, dict[str, Any]]) -> int:
    checks: dict[str, bool] = {}
    unsaid = [name for name in ("two", "killed", "one") if name not in found]
    unsaid += [
        f"{name} ({found[name]['disturbed']} disturbed, {len(found[name]['failed'])} failed)"
        for name in ("two", "one")
        if name in found and (found[name]["disturbed"] or found[name]["failed"])
    ]
    if "two" in found:
        checks["two shards at once on two devices"] = _overlap(found["two"]["shards"])
    if "two" in found and "one" in found and found["one"]["makespan_s"] and found["two"]["makespan_s"]:
        ratio = found["two"]["makespan_s"] / found["one"]["makespan_s"]
        checks[f"makespan {ratio:.2f} of one device's, allowed {LARGEST_RATIO}"] = ratio <= LARGEST_RATIO
    if killed := found.get("killed"):
        if killed["killed"] is None:
            unsaid.append("killed (no session was caught amid its bricks)")
        else:
            checks["the killed shard was measured by another attempt"] = any(
                shard["run_id"] == killed["killed"]["run_id"] and shard["tries"] > 1
                for shard in killed["shards"]
            )
        if killed["disturbed"]:
            unsaid.append(f"killed ({killed['disturbed']} disturbed: those bricks have bounds only)")
        else:
            checks["no brick lost"] = killed["lost"] == 0
            checks["no figure without all of its bricks"] = killed["uncovered"] == 0
        checks["none stored twice"] = killed["twice"] == 0
        checks["nothing failed"] = not killed["failed"]
    for name, held in checks.items():
        print(f"{name}: {'passed' if held else 'FAILED'}")
    for name in unsaid:
        print(f"{name}: not judged")
    return 1 if not all(checks.values()) else 2 if unsaid else 0


if __name__ == "__main__":
    sys.exit(main())
