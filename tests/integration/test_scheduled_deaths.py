"""The real executor, workers and Airflow: whatever dies or stands still, each job is measured, and once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.provider.system.config import SQLITE_WAIT_S
from tests.local_system import LENGTHS, Driver, warm_system, write_jobs

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with warm_system(tmp_path_factory, write_jobs) as running:
        yield running


def test_a_killed_load_is_run_again_on_the_other_device(driver: Driver) -> None:
    """kill -9 of a task and all above it: the job is measured again elsewhere; the killed try has no result."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=12.0)
    driver.running(run, "load")
    first = driver.tasks(run)["load"]["queue"]
    driver.kill_task_on(first)
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["load"]["try_number"] > 1 and tasks["load"]["queue"] != first
    assert len(driver.results("long")) == before + 1
    driver.all_is_well()


def given_up(driver: Driver, run: str) -> bool:
    """Whether Airflow has failed a task of a run for want of a heartbeat: by its database, for nobody answers."""
    query = "SELECT 1 FROM log WHERE dag_id = ? AND run_id = ? AND event = 'heartbeat timeout'"
    with closing(sqlite3.connect(driver.system.home / "airflow.db", timeout=SQLITE_WAIT_S)) as database:
        return database.execute(query, run.removeprefix("/dags/").split("/dagRuns/")).fetchone() is not None


def test_the_web_port_is_not_asked_by_tasks(driver: Driver) -> None:
    """A job is measured while the public server stands still, and that server has no route of the execution API."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=2.0)
    driver.running(run, "load")
    assert (
        driver.api("GET", f"{driver.system.url()}/execution/health").headers["content-type"]
        != "application/json"
    )
    server = psutil.Process(driver.pid("api-server"))
    server.suspend()
    try:
        driver.until(lambda: len(driver.results("long")) == before + 1, "nothing was measured", every_s=1)
    finally:
        server.resume()
    driver.succeeded(run)
    assert driver.tasks(run)["load"]["try_number"] == 1
    driver.all_is_well()


def test_a_job_whose_heartbeat_was_lost_is_run_again(driver: Driver) -> None:
    """What tasks report to stands still for as long as Airflow waits for a heartbeat: the load did its work, Airflow
    calls it failed, and the job is measured again; there is one result."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=8.0)
    driver.running(run, "load")
    server = psutil.Process(driver.pid("execution-api"))
    family = [server, *server.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        driver.until(lambda: given_up(driver, run), "Airflow waits for the heartbeat still", every_s=1)
    finally:
        for process in family:
            process.resume()
    driver.succeeded(run)
    assert driver.tasks(run)["load"]["try_number"] > 1
    assert len(driver.results("long")) == before + 1
    driver.all_is_well()


def test_everything_dies_and_comes_back(driver: Driver) -> None:
    """With jobs running and waiting, kill -9 of both API servers, dag-processor, broker, mongod, scheduler and a
    worker with a running server: each job ends well, once."""
    counts = {name: len(driver.results(f"job-{name}")) for name in LENGTHS}
    runs = {name: driver.trigger(f"job-{name}", duration_s=LENGTHS[name] + 4) for name in LENGTHS}
    driver.until(
        lambda: any(driver.tasks(run)["load"]["state"] == "running" for run in runs.values()),
        "no load runs",
        300,
    )
    for name in ("dag-processor", "broker", "api-server", "execution-api"):
        driver.kill(name)
    mongod = next(
        p for p in psutil.process_iter(["cmdline"])
        if str(driver.system.data_dir / "perfdb" / "db") in (p.info["cmdline"] or [])
    )  # fmt: skip
    mongod.kill()
    driver.kill("scheduler")
    busy = next(
        (d for d in cluster_state(driver.db).devices if d.job), cluster_state(driver.db).devices[0]
    ).device_id
    driver.kill("worker-" + busy.rpartition(".")[2])
    driver.succeeded(*runs.values(), timeout_s=600)
    for name in LENGTHS:
        new = driver.results(f"job-{name}")[counts[name] :]
        assert len(new) == 1, (name, new)
    driver.all_is_well()


def test_a_worker_that_never_comes_back(driver: Driver) -> None:
    """Its job is run again on the other device, and its clean-up blocks nothing."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=10.0)
    driver.running(run, "load")
    device = driver.tasks(run)["load"]["queue"]
    driver.kill("keeper")
    driver.kill("worker-" + device.rpartition(".")[2])
    driver.succeeded(run)
    assert driver.tasks(run)["load"]["queue"] != device
    assert len(driver.results("long")[before:]) == 1
    driver.all_is_well()
