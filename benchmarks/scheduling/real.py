"""A whole system on this machine whose jobs sleep: what the real executor costs and does, without a model."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from inferbench_tasks.perfdb import embedded
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.scheduling.eventlog import read_log
from inferbench_tasks.submission.schema import JobSpec as Document
from inferbench_tasks.workers.devices import find, partitions

STAGES = ("generate", "convert", "serve", "load", "collect", "release")
DAGS = """
import json
import os
import time
from datetime import datetime
from pathlib import Path

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from inferbench_tasks.provider.queues import HOLD, HOST

STAGES = {stages!r}
JOBS = json.loads(Path({jobs!r}).read_text())


def work(seconds):
    time.sleep(seconds)


for name, job in JOBS.items():
    with DAG(name, start_date=datetime(2026, 1, 1), schedule=None, is_paused_upon_creation=False,
             max_active_runs=64) as dag:
        before = None
        for stage in STAGES:
            place = STAGES.index(stage) - STAGES.index("serve")
            leased = place >= 0
            request = LeaseRequest(job["document"]) if place == 0 else None
            told = LeasedTask(0, stage, place, stage == "release", request)
            task = PythonOperator(
                task_id="job-000." + stage, python_callable=work,
                op_args=[job["seconds"] if stage == "load" else 0.0],
                queue=(HOLD if leased else HOST) if {ours} else (job["queue"] if leased else HOST),
                executor_config=told.config() if leased else {{}},
            )
            if before is not None:
                before >> task
            before = task
    globals()[name] = dag
"""
STOCK = "airflow.providers.celery.executors.celery_executor.CeleryExecutor"


def document(name: str, seconds: float) -> dict[str, object]:
    """A job that declares its length."""
    load = {"arrivals": {"kind": "constant", "rate_rps": 1}}
    given = {"name": name, "model": {"kind": "zoo", "name": "digits"}, "load": load}
    return Document.model_validate({**given, "expected_duration_s": max(seconds, 1.0)}).model_dump(
        mode="json"
    )


@contextmanager
def running(
    seconds: dict[str, float], *, policy: str, ours: bool = True, declared: dict[str, float] | None = None
) -> Iterator[LocalSystem]:
    """A system with one DAG per job. ``declared``: what a job says of its length, where that differs."""
    with tempfile.TemporaryDirectory(prefix="inferbench-executor-") as folder:
        base = Path(folder)
        dags = base / "dags"
        dags.mkdir()
        (base / "submissions").mkdir()
        devices = partitions(min(2, len(os.sched_getaffinity(0))))
        queues = [find(d).device_id for d in devices]
        jobs = {
            name: {
                "seconds": s,
                "document": document(name, (declared or {}).get(name, s)),
                "queue": queues[i % len(queues)],
            }
            for i, (name, s) in enumerate(seconds.items())
        }
        (base / "jobs.json").write_text(json.dumps(jobs))
        (dags / "jobs.py").write_text(DAGS.format(stages=STAGES, jobs=str(base / "jobs.json"), ours=ours))
        os.environ |= {"INFERBENCH_POLICY": policy, "INFERBENCH_DATA_DIR": str(base / "data")}
        os.environ |= {"INFERBENCH_MAX_FOREIGN_LOAD": "2"}
        if not ours:
            os.environ["INFERBENCH_EXECUTOR"] = STOCK
        system = LocalSystem(base / "data")
        system.up(
            dags=dags, submissions=base / "submissions", port=None, say=lambda text: None, workers=devices
        )
        try:
            yield system
        finally:
            os.environ.pop("INFERBENCH_EXECUTOR", None)
            system.down(say=lambda text: None)
            embedded.stop(base / "data")


class Api:
    """As little of the REST API as is needed."""

    def __init__(self, system: LocalSystem) -> None:
        headers = {"Authorization": f"Bearer {system.token()}"}
        self.http = httpx.Client(base_url=f"{system.url()}/api/v2", headers=headers, timeout=60)

    def trigger(self, dag: str) -> str:
        while self.http.get(f"/dags/{dag}").status_code != 200:
            time.sleep(0.5)
        answer = self.http.post(f"/dags/{dag}/dagRuns", json={"logical_date": None, "conf": {}})
        answer.raise_for_status()
        return f"/dags/{dag}/dagRuns/{answer.json()['dag_run_id']}"

    def wait(self, runs: list[str]) -> list[dict[str, str]]:
        """All must succeed; the runs as Airflow tells them."""
        found = []
        for run in runs:
            while (state := self.http.get(run).json())["state"] not in ("success", "failed"):
                time.sleep(0.5)
            assert state["state"] == "success", state
            found.append(state)
        return found


def events(system: LocalSystem) -> list[object]:
    """What the scheduler logged."""
    return [
        e for path in sorted((system.data_dir / "scheduling").glob("*.jsonl")) for e in read_log(path).events
    ]


def until(check: Callable[[], object], what: str, timeout_s: float = 400.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} after {timeout_s:.0f} s")
        time.sleep(0.5)
