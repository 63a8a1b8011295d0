"""A running system for browser tests: ``inferbench up``, with the results of three earlier runs in its PerfDB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.background import NICE
from inferbench_tasks.client import InferBench
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.parts.operators import JOBS_OF_A_PART
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.workers.checks import BUSY
from tests.unit.perfdb.builders import result
from tests.warm import warm

#: A model's name that a page must show as text.
NASTY = "<script>document.title='hacked'</script>"
#: Long enough to be seen while it goes on, where pictures are made.
DURATION_S = 25 if "INFERBENCH_PICTURES" in os.environ else 2
GOOD = f"""name: by-form
model: {{kind: zoo, name: digits}}
load:
  arrivals: {{kind: poisson, rate_rps: 100}}
  duration_s: {DURATION_S}
  warmup_s: 1
  wait_for_quiet_s: 0
"""
#: What the earlier runs asked for.
ASKED = next(iter(expand(read_submission_text(GOOD, "good.yaml", INSTALLED)))).spec.model_dump(mode="json")


@dataclass
class Site:
    """A running system: its address, its users, and where screenshots go."""

    url: str
    passwords: dict[str, str]
    shots: Path

    def client(self, user: str = "admin") -> InferBench:
        return InferBench(self.url, user, self.passwords[user], timeout_s=120)


@contextmanager
def started(base: Path, shots: Path, factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A system of its own, ended afterwards."""
    folder, data_dir = base / "submissions", base / "data"
    folder.mkdir()
    warm(data_dir, factory)
    (folder / "quickstart.yaml").write_text(GOOD.replace("by-form", "quickstart"))
    # The browser and the system itself keep two cores busy: that is not what is tested here, and what comes last
    # elsewhere would wait for them.
    quiet = {MODE: "note", BUSY: "2", NICE: "0"}
    # A submission of three jobs is a large one here.
    env = {**os.environ, settings.DATA_DIR: str(data_dir), JOBS_OF_A_PART: "1", **quiet}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main"]

    def inferbench(*arguments: str) -> None:
        done = subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr

    try:
        # With one worker all of Airflow would have the other of two cores alone, and jobs would wait for each other.
        workers = "2" if len(os.sched_getaffinity(0)) > 1 else "1"
        inferbench("up", "--submissions", str(folder), "--workers", workers)
        yield running(data_dir, shots)
    finally:
        inferbench("down")
        embedded.stop(data_dir)


def running(data_dir: Path, shots: Path) -> Site:
    """A system that is up, with the three results."""
    with PerfDB.connect(None, data_dir) as db:
        # Whoever is slower answers more at once, so that each of the three is on the front.
        three = {"slow": (90.0, 30.0), "fast": (10.0, 10.0), "middle": (40.0, 20.0)}
        for number, (name, (p99_ms, rps)) in enumerate(three.items()):
            model = {
                "name": NASTY if name == "slow" else "digits",
                "task": "classification",
                "dataset": "seen",
            }
            digest = {"name": name, "user": "ann", "digest": f"{number:064x}"}
            summary = {"e2e_latency_ms": {"p99": p99_ms}, "throughput_rps": rps, "accuracy_ratio": 0.97}
            document = result(f"{name}-run", summary=summary, job_id=name, submission=digest, model=model)
            db.start_run(document.run_id, "earlier", name, ASKED)
            db.save_result(document)
            db.end_run(document.run_id, document.verdict)
    system = data_dir / "system"
    passwords = json.loads((system / "passwords.json").read_text())
    found = Site((system / "url").read_text().strip(), passwords, shots)
    # The dag-processor reads its files after the system is up.
    until(lambda: airflow(found, "/dags/submit").status_code == 200, "Airflow does not know the DAG submit")
    return found


def airflow(site: Site, path: str) -> httpx.Response:
    """Airflow's own API, as admin."""
    return fetched(site, f"/api/v2{path}")


def fetched(site: Site, path: str) -> httpx.Response:
    """What admin gets there."""
    login = {"username": "admin", "password": site.passwords["admin"]}
    token = httpx.post(f"{site.url}/auth/token", json=login, timeout=120).json()["access_token"]
    return httpx.get(site.url + path, headers={"Authorization": f"Bearer {token}"}, timeout=120)


def until(check: Any, what: str, timeout_s: float = 240) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(1)
    return found
