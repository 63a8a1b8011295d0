"""The real executor, workers and Airflow: a training holds several devices at once, whatever dies meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.scheduling.events import LeaseGranted
from inferbench_tasks.training.result import TrainingResult
from tests.local_system import Driver, shared_memory, warm_system, write_jobs, write_training

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(1200)]


def _write(folder: Path) -> None:
    write_jobs(folder)
    write_training(folder, "gang", samples=128, rounds=3)
    write_training(folder, "gang-long", samples=1347, rounds=60)
    write_training(folder, "gang-some", samples=640, rounds=12, workers=1)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with warm_system(tmp_path_factory, _write) as running:
        yield running


def ranks(driver: Driver) -> list[list[int]]:
    """The cores of each rank of a training that runs here, as the kernel has them."""
    mine = str(driver.system.data_dir)
    cores = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        # torchrun's own command line names the program too.
        if (
            "inferbench_tasks.training.rank_main" in command
            and mine in command[-1]
            and "--nproc-per-node" not in command
        ):
            with suppress(psutil.NoSuchProcess):
                cores.append(process.cpu_affinity())
    return cores


def trainings(driver: Driver, name: str) -> list[TrainingResult]:
    """What was measured of a training, the newest first."""
    return driver.db.results_of(TrainingResult, {"submission.name": name})


def grants_of(driver: Driver, dag: str) -> list[LeaseGranted]:
    """The leases that a DAG's jobs got so far."""
    return [grant for grant in driver.log_is_sound() if JobKey.parse(grant.job_id).dag_id == dag]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two devices need two cores")
def test_a_training_holds_two_devices_while_serving_jobs_wait(driver: Driver) -> None:
    """It waits until both are free, has both under one lease with a rank pinned to each, the serving jobs wait with the
    reason and run afterwards; each job once."""
    before, leased = len(trainings(driver, "gang")), grants_of(driver, "gang")
    first = driver.trigger("job-b", duration_s=4.0)
    driver.running(first, "load")
    gang = driver.trigger("gang")
    driver.until(
        lambda: any("2 of one host are needed at once" in w.why for w in cluster_state(driver.db).waiting),
        "the training does not say what it waits for",
    )
    held: list[list[str]] = []
    pinned: list[list[list[int]]] = []

    def look() -> bool:
        devices = cluster_state(driver.db).devices
        if all(device.held_with for device in devices) and all(d.state == "busy" for d in devices):
            held.append(devices[0].held_with)
            pinned.append(sorted(ranks(driver)))
        return driver.state(gang) in ("success", "failed")

    driver.until(
        lambda: driver.tasks(gang)["train"]["state"] in ("running", "success"), "it does not train", 300
    )
    later = [driver.trigger("job-d"), driver.trigger("job-f")]
    driver.until(look, "the training did not end", 300, every_s=0.1)
    driver.succeeded(first, gang, *later)
    devices = Cluster(driver.db).devices()
    assert {frozenset(names) for names in held} == {frozenset(d.device_id for d in devices)}
    assert sorted(list(d.cores) for d in devices) in pinned
    [result, *others] = trainings(driver, "gang")
    assert len(others) == before
    assert result.engine is not None and result.engine.processes == 2 and result.verdict.measured
    assert {d["device_id"] for d in result.extensions["devices"]} == {d.device_id for d in devices}
    driver.all_is_well()
    assert [len(g.devices) for g in grants_of(driver, "gang")] == [2] * (len(leased) + 1)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two devices need two cores")
@pytest.mark.parametrize("which", [0, 1])
def test_a_worker_of_two_devices_is_killed(driver: Driver, which: int) -> None:
    """kill -9 of the worker that runs the training, and of the other: it ends once, with a reason and no figures (there
    are no two other devices), both devices are free again, no rank is left, and the next job runs."""
    run = driver.trigger("gang-long")
    driver.running(run, "train")
    driver.until(lambda: len(ranks(driver)) == 2, "no ranks")
    members = next(d.held_with for d in cluster_state(driver.db).devices if d.held_with)
    assert driver.tasks(run)["train"]["queue"] == members[0]
    driver.kill("worker-" + members[which].rpartition(".")[2])
    assert driver.ended(run) == ["failed"]
    driver.all_is_well()
    driver.until(lambda: not ranks(driver), "ranks are left")
    record = driver.db.find_runs({"submission.name": "gang-long"})[0]
    assert str(record.verdict).startswith("failed: scheduler"), record.verdict
    assert not [result for result in trainings(driver, "gang-long") if result.verdict.measured]
    driver.until(
        lambda: {d.state for d in cluster_state(driver.db).devices} == {"free"}, "a device is not free"
    )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two devices need two cores")
def test_perfdb_and_the_scheduler_are_killed_amid_a_training_of_two_devices(driver: Driver) -> None:
    """kill -9 of both while both ranks train: the training goes on, ends once with one result, and both devices are
    free; no rank and no shared memory of its loaders is left.
    """
    before, leased = len(trainings(driver, "gang-some")), grants_of(driver, "gang-some")
    shared = shared_memory()
    run = driver.trigger("gang-some")
    driver.running(run, "train")
    driver.until(lambda: len(ranks(driver)) >= 2, "no ranks")
    folder = str(driver.system.data_dir / "perfdb" / "db")
    mongod = next(p for p in psutil.process_iter(["cmdline"]) if folder in (p.info["cmdline"] or []))
    mongod.kill()
    driver.kill("scheduler")
    driver.succeeded(run, timeout_s=400)
    [result, *others] = trainings(driver, "gang-some")
    assert len(others) == before and result.verdict.measured
    driver.all_is_well()
    grants = grants_of(driver, "gang-some")
    assert {len(grant.devices) for grant in grants} == {2}
    # The next scheduler takes over the lease that it finds, with its token, and writes that down too.
    tokens = {grant.token for grant in grants} - {grant.token for grant in leased}
    assert len(tokens) == 1, grants
    driver.until(lambda: not ranks(driver), "ranks are left")
    assert shared_memory() <= shared
