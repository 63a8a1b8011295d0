"""Simulated agents and waiting jobs against a real PerfDB and the executor's code: ``python -m benchmarks.cluster``.

For each number of devices: a MongoDB of its own, processes of simulated agents (``agents.py``), and one executor
(``control.py``) on a migrated SQLite with the device tasks of all waiting jobs. A line of JSON for each, ``saturated``
where its agents were late by more than twofold, and a last one of what grew with the devices (``judged.py``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pymongo

from benchmarks.cluster.judged import growth, saturated
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.workers.agent import POLL_S

#: Agents of one process.
PER_PROCESS = 250


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--length-s", type=float, default=60.0, help="what a played job takes")
    parser.add_argument("--seconds", type=float, default=60.0, help="of going on, once all devices are busy")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for devices in options.devices:
        with tempfile.TemporaryDirectory() as folder:
            of_size = list(one(devices, options.jobs, options.length_s, options.seconds, Path(folder)))
        look_every_s = of_size[-1]["look_every_s"]
        for row in of_size:
            rows.append({"devices": devices, "saturated": saturated(look_every_s, POLL_S), **row})
            print(json.dumps(rows[-1]), flush=True)
    print(json.dumps(growth(rows)), flush=True)


def one(devices: int, jobs: int, length_s: float, seconds: float, folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of one number of devices."""
    from inferbench_tasks.provider import metadata_db
    from inferbench_tasks.provider.system.config import TUNED

    uri = embedded.ensure(folder)
    metadata_db.copy(folder / "airflow.db", folder)
    environment = {**os.environ, **TUNED, **metadata_db.airflow_environment(folder, folder)}
    environment |= {"AIRFLOW_HOME": str(folder), "INFERBENCH_DATA_DIR": str(folder), "INFERBENCH_PERFDB_URI": uri,
                    "AIRFLOW__CELERY__BROKER_URL": "memory://", "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}  # fmt: skip
    mongod = next(p for p in psutil.process_iter(["name", "cmdline"])
                  if p.info["name"] == "mongod" and str(folder) in " ".join(p.info["cmdline"] or []))  # fmt: skip
    agents = []
    for first in range(0, devices, PER_PROCESS):
        count = min(PER_PROCESS, devices - first)
        command = [sys.executable, "-m", "benchmarks.cluster.agents", str(first), str(count)]
        agents.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    try:
        for agent in agents:
            assert agent.stdout is not None
            assert agent.stdout.readline().strip() == "ready"
        command = [
            sys.executable,
            "-m",
            "benchmarks.cluster.control",
            str(jobs),
            str(devices),
            str(length_s),
            str(seconds),
        ]
        control = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert control.stdout is not None
        before = load(uri, mongod)
        for line in control.stdout:
            if not line.startswith("{"):
                continue
            now = load(uri, mongod)
            elapsed_s = now["at_s"] - before["at_s"]
            yield {
                **json.loads(line),
                "perfdb_ops_per_s": round((now["ops"] - before["ops"]) / elapsed_s),
                "perfdb_cores": round((now["cpu_s"] - before["cpu_s"]) / elapsed_s, 3),
                "load_average": round(os.getloadavg()[0], 1),
            }
            before = now
        if control.wait():
            raise SystemExit(f"the executor's process ended with {control.returncode}")
    finally:
        looks = []
        for agent in agents:
            agent.terminate()
            answer = agent.communicate()[0].strip().splitlines()
            looks += [json.loads(line) for line in answer if line.startswith("{")]
        embedded.stop(folder)
    yield {
        "phase": "agents",
        "look_every_s": round(max(look["look_every_s"] for look in looks), 3),
        "cores": round(sum(look["cores"] for look in looks), 3),
    }


def load(uri: str, mongod: psutil.Process) -> dict[str, float]:
    """MongoDB's processor time and operations so far."""
    with pymongo.MongoClient(uri) as client:
        counters = client.admin.command("serverStatus")["opcounters"]
    cpu = mongod.cpu_times()
    return {"ops": float(sum(counters.values())), "cpu_s": cpu.user + cpu.system, "at_s": time.monotonic()}


if __name__ == "__main__":
    main()
