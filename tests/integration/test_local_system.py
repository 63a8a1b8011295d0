"""A real Airflow: api-server, scheduler with LocalExecutor, dag-processor, driven through its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system.local import LocalSystem

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
SUBMISSION = """
name: through-rest
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 100}
  duration_s: 3
  warmup_s: 1
sweep: {load.seed: [1, 2]}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """A system with one good and one broken submission."""
    base = tmp_path_factory.mktemp("system")
    folder = base / "submissions"
    folder.mkdir()
    (folder / "good.yaml").write_text(SUBMISSION)
    (folder / "broken.yaml").write_text(SUBMISSION.replace("load:", "lod:"))
    running = LocalSystem(base / "data")
    running.up(dags=ROOT / "dags", submissions=folder, port=None, say=print)
    try:
        yield running
    finally:
        pids = [p.pid for p in running.running()]
        running.down(say=print)
        embedded.stop(base / "data")
        assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.fixture(scope="module")
def api(system: LocalSystem) -> Iterator[httpx.Client]:
    """The REST API, as admin."""
    headers = {"Authorization": f"Bearer {system.token()}"}
    with httpx.Client(base_url=f"{system.url()}/api/v2", headers=headers, timeout=60) as client:
        yield client


def until(check: Callable[[], Any], what: str, timeout_s: float = 180) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(0.5)
    return found


def test_a_submission_runs_through_the_rest_api(system: LocalSystem, api: httpx.Client) -> None:
    """The DAG of a YAML, triggered by REST, ends in success, with valid results in PerfDB and a report."""
    until(lambda: api.get("/dags/through-rest").status_code == 200, "the DAG was not found")
    started = api.post("/dags/through-rest/dagRuns", json={"logical_date": None, "conf": {}})
    assert started.status_code == 200, started.text
    run = f"/dags/through-rest/dagRuns/{started.json()['dag_run_id']}"
    state = until(
        lambda: (s := api.get(run).json()["state"]) in ("success", "failed") and s, "the run did not end"
    )
    tasks = {t["task_id"]: t["state"] for t in api.get(f"{run}/taskInstances").json()["task_instances"]}
    assert state == "success", tasks
    assert set(tasks.values()) == {"success"}
    assert len(tasks) == 13
    with PerfDB.connect(None, system.data_dir) as db:
        results = db.find_results({"submission.name": "through-rest"})
    assert [r.verdict for r in results] == ["valid", "valid"]
    assert all(r.summary.e2e_latency_ms.p50 for r in results)
    assert len(list(system.data_dir.glob("invocations/*/report.html"))) == 1


def test_a_broken_submission_is_an_import_error(api: httpx.Client) -> None:
    """The broken YAML shows with its own path and problem; the good one stays."""
    errors = until(lambda: api.get("/importErrors").json()["import_errors"], "no import error shown")
    assert [Path(e["filename"]).name for e in errors] == ["broken.yaml"]
    assert "lod" in errors[0]["stack_trace"]
    assert api.get("/dags/through-rest").status_code == 200


def test_nobody_gets_in_without_a_login(system: LocalSystem) -> None:
    """The REST API refuses who has no token."""
    assert httpx.get(f"{system.url()}/api/v2/dags", timeout=60).status_code == 401


def test_a_second_up_is_refused(system: LocalSystem) -> None:
    """A system that is up says so, with its address, and is left alone."""
    with pytest.raises(InputError, match=f"up already.*{system.url()}"):
        system.up(dags=ROOT / "dags", submissions=ROOT, port=None, say=print)
    assert len(system.running()) == 3


def test_the_report_opens_from_airflow(system: LocalSystem, api: httpx.Client) -> None:
    """The analyze task links to the report, which opens with a login and for nobody else."""
    run = api.get("/dags/through-rest/dagRuns").json()["dag_runs"][0]["dag_run_id"]
    links = api.get(f"/dags/through-rest/dagRuns/{run}/taskInstances/analyze/links").json()["extra_links"]
    assert links["Report"].startswith("/inferbench/report/")
    page = api.get(f"{system.url()}{links['Report']}")
    assert page.status_code == 200
    assert "through-rest" in page.text
    assert httpx.get(f"{system.url()}{links['Report']}", timeout=60).status_code == 401
    assert api.get(f"{system.url()}/inferbench/report/..%2f..%2fsystem").status_code == 404
