"""The real executor, workers and Airflow: jobs get devices in the policy's order, whatever dies meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.system.config import SQLITE_WAIT_S
from inferbench_tasks.provider.system.local import LocalSystem
from inferbench_tasks.scheduling.events import LeaseGranted
from inferbench_tasks.training.result import TrainingResult
from tests.local_system import ROOT, Driver, local_system, once_each, shared_memory, write_job, write_training
from tests.probe_pipeline import install, submission
from tests.stranger import ask
from tests.ten_objectives import LONG, SHOWN, Checklist, place
from tests.warm import warm

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(1200)]
LENGTHS = {"a": 4.0, "b": 1.0, "c": 3.0, "d": 2.0, "f": 1.5}


def _write(folder: Path) -> None:
    for name, seconds in LENGTHS.items():
        write_job(folder, f"job-{name}", seconds)
    write_job(folder, "long", 30.0)
    write_job(folder, "bad", 1.0, "serve: {ready_timeout_s: 0.01}")
    write_job(folder, "pair", 1.5, "sweep: {load.seed: [1, 2]}")
    write_training(folder, "gang", samples=128, rounds=3)
    write_training(folder, "gang-long", samples=1347, rounds=60)
    write_training(folder, "gang-some", samples=640, rounds=12, workers=1)
    (folder / "probe.yaml").write_text(submission("probe"))
    place(folder)
    (folder / "broken.yaml").write_text((folder / "pair.yaml").read_text().replace("load:", "lod:"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    base = tmp_path_factory.mktemp("scheduled")
    warm(base / "data", tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(install(tmp_path_factory.mktemp("site"))))
        with local_system(base, _write) as running:
            yield running


def reports_of(driver: Driver, name: str) -> list[Path]:
    """Those of a submission's invocations."""
    return list(driver.system.data_dir.glob(f"invocations/{name}-*/report.html"))


def test_a_submission_runs_through_the_rest_api(driver: Driver) -> None:
    """The DAG of a YAML with two jobs, triggered by REST, ends in success, with results in PerfDB and a report."""
    before, reports = len(driver.results("pair")), len(reports_of(driver, "pair"))
    run = driver.trigger("pair")
    states = driver.ended(run)
    tasks = driver.api("GET", f"{run}/taskInstances").json()["task_instances"]
    assert states == ["success"], {t["task_id"]: t["state"] for t in tasks}
    assert [t["state"] for t in tasks] == ["success"] * 13
    results = driver.results("pair")[before:]
    assert len(results) == 2
    # A latency that a busy machine's sender made is withheld, a throughput never.
    assert all(r.summary.throughput_rps for r in results)
    assert len(reports_of(driver, "pair")) == reports + 1


def test_a_broken_submission_is_an_import_error(driver: Driver) -> None:
    """The broken YAML shows with its own path and problem; the good ones stay."""
    errors = driver.until(
        lambda: driver.api("GET", "/importErrors").json()["import_errors"], "no import error shown"
    )
    assert [Path(e["filename"]).name for e in errors] == ["broken.yaml"]
    assert "lod" in errors[0]["stack_trace"]
    assert driver.api("GET", "/dags/pair").status_code == 200


def test_nobody_gets_in_without_a_login(driver: Driver) -> None:
    """The REST API refuses who has no token."""
    assert httpx.get(f"{driver.system.url()}/api/v2/dags", timeout=60).status_code == 401


def test_a_second_up_is_refused(driver: Driver) -> None:
    """A system that is up says so, with its address, and is left alone."""
    before = {p.pid for p in driver.system.running()}
    with pytest.raises(InputError, match=f"up already.*{driver.system.url()}"):
        driver.system.up(dags=ROOT / "dags", submissions=ROOT, port=None, say=print)
    assert {p.pid for p in driver.system.running()} == before


def test_a_taken_port_is_refused(driver: Driver, tmp_path: Path) -> None:
    """Before anything starts, with the port in the message."""
    port = httpx.URL(driver.system.url()).port
    with pytest.raises(InputError, match=f"--port {port} is taken"):
        LocalSystem(tmp_path).up(dags=ROOT / "dags", submissions=ROOT, port=port, say=print)
    assert LocalSystem(tmp_path).running() == []


def test_the_report_opens_from_airflow(driver: Driver) -> None:
    """The analyze task links to the report, which opens with a login and for nobody else."""
    run = driver.api("GET", "/dags/pair/dagRuns").json()["dag_runs"][0]["dag_run_id"]
    links = driver.api("GET", f"/dags/pair/dagRuns/{run}/taskInstances/analyze/links").json()["extra_links"]
    assert links["Report"].startswith("/inferbench/report/")
    url = f"{driver.system.url()}{links['Report']}"
    page = httpx.get(url, headers={"Authorization": f"Bearer {driver.system.token()}"}, timeout=60)
    assert page.status_code == 200
    assert "pair" in page.text
    assert httpx.get(url, timeout=60).status_code == 401


@pytest.fixture(scope="module")
def checklist(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checklist]:
    made = Checklist(driver, tmp_path_factory.mktemp("objectives"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "objective", [pytest.param(of, marks=pytest.mark.long) if of in LONG else of for of in SHOWN]
)
def test_an_objective_of_mlmodelscope_is_shown(checklist: Checklist, objective: str) -> None:
    """What ``docs/explanation/mlmodelscope.md`` has for each runs as it stands there, and shows what the page says."""
    checklist.show(objective)


def test_jobs_share_the_devices_shortest_first(driver: Driver) -> None:
    """Four jobs, two devices: both are used, each job once, what waited started by length, Airflow shows the real
    queue, all are measured, and the log replays to the same decisions."""
    before = {name: len(driver.results(f"job-{name}")) for name in "abcd"}
    leased = driver.log_is_sound()
    runs = {name: driver.trigger(f"job-{name}") for name in before}
    seen: set[str] = set()

    def look() -> bool:
        state = cluster_state(driver.db)
        for device in state.devices:
            if device.job:
                seen.add(device.device_id)
        for waiting in state.waiting:
            assert waiting.why
        return all(driver.state(run) in ("success", "failed") for run in runs.values())

    driver.until(look, "the jobs did not end", 400, every_s=1)
    assert {name: driver.state(run) for name, run in runs.items()} == dict.fromkeys(runs, "success")
    assert len(seen) == 2
    for name, run in runs.items():
        tasks = driver.tasks(run)
        queue = tasks["serve"]["queue"]
        assert queue in seen
        assert {tasks[stage]["queue"] for stage in ("load", "collect", "release")} == {queue}
        assert tasks["generate"]["queue"] == "host"
        assert len(driver.results(f"job-{name}")) == before[name] + 1
    driver.all_is_well()
    assert once_each(driver.log_is_sound(), [f"job-{name}" for name in before], before=leased)


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
    """It waits until both are free and says so, has both under one lease with a rank pinned to each, and the serving
    job waits for it; each job once."""
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
    later = driver.trigger("job-f")
    driver.until(look, "the training did not end", 300)
    driver.succeeded(first, gang, later)
    devices = Cluster(driver.db).devices()
    assert {frozenset(names) for names in held} == {frozenset(d.device_id for d in devices)}
    assert sorted(list(d.cores) for d in devices) in pinned
    [result, *others] = trainings(driver, "gang")
    assert len(others) == before
    assert result.engine is not None and result.engine.processes == 2 and result.verdict.measured
    assert {d["device_id"] for d in result.extensions["devices"]} == {d.device_id for d in devices}
    driver.all_is_well()
    assert [len(g.devices) for g in grants_of(driver, "gang")] == [2] * (len(leased) + 1)


# Ranks that die with their worker: test_three_hosts.py; both devices: test_gang_dispatch.py; what a gang left there:
# test_worker_agent.py; a worker that is killed here: below.
@pytest.mark.long
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


@pytest.mark.long
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


def test_a_failed_start_frees_the_device(driver: Driver) -> None:
    """A server that never gets ready: the job fails by itself, is not tried again, and its device is free."""
    run = driver.trigger("bad")
    assert driver.ended(run) == ["failed"]
    assert driver.tasks(run)["serve"]["try_number"] == 1
    found = driver.db.find_runs({"submission.name": "bad"})[0]
    assert str(found.verdict).startswith("failed: serve")
    driver.all_is_well()


@pytest.mark.long  # with a device that is gone for good: the last test
def test_a_killed_load_is_run_again_on_the_other_device(driver: Driver) -> None:
    """kill -9 of a task and all above it: the job is measured again elsewhere; the killed try has no result."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=6.0)
    driver.running(run, "load")
    first = driver.tasks(run)["load"]["queue"]
    driver.kill_task_on(first)
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["load"]["try_number"] > 1 and tasks["load"]["queue"] != first
    assert len(driver.results("long")) == before + 1
    driver.all_is_well()


def waited_s(driver: Driver) -> list[float]:
    """What the probes measured, the oldest first."""
    found = driver.db.collection("probe_results").find(sort=[("created_at", 1)])
    return [result["waited_s"] for result in found]


def test_a_second_pipeline_waits_for_a_device_like_any(driver: Driver) -> None:
    """``kind: probe``, known by its entry point alone, gets a lease: both its tasks run on that device; REST and the
    run's page show its result."""
    before, leased = len(waited_s(driver)), driver.log_is_sound()
    run = driver.trigger("probe", seconds=0.5)
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert set(tasks) == {"wait", "note"}
    assert tasks["wait"]["queue"] == tasks["note"]["queue"] != "host"
    assert [seconds >= 0.5 for seconds in waited_s(driver)[before:]] == [True]
    record = driver.db.find_runs({"submission.name": "probe"})[0]
    assert (record.status, str(record.verdict), record.job["kind"]) == ("done", "valid", "probe")
    client = httpx.Client(headers={"Authorization": f"Bearer {driver.system.token()}"}, timeout=60)
    with client:
        answer = client.get(f"{driver.system.url()}/inferbench/api/runs/{record.run_id}")
        assert answer.json()["result"]["waited_s"] >= 0.5
        page = client.get(f"{driver.system.url()}/inferbench/run/{record.run_id}")
        assert page.status_code == 200 and "waited s" in page.text
        assert client.get(f"{driver.system.url()}/inferbench/runs").status_code == 200
    driver.all_is_well()
    assert once_each(driver.log_is_sound(), ["probe"], before=leased)


@pytest.mark.long
def test_a_second_pipeline_that_is_killed_is_run_again(driver: Driver) -> None:
    """kill -9 of its first task and all above it: it waits for a device again, elsewhere, and has one result."""
    before = len(waited_s(driver))
    run = driver.trigger("probe", seconds=6.0)
    driver.running(run, "wait")
    first = driver.tasks(run)["wait"]["queue"]
    driver.kill_task_on(first)
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["wait"]["try_number"] > 1
    assert tasks["wait"]["queue"] == tasks["note"]["queue"] != first
    assert [seconds >= 6.0 for seconds in waited_s(driver)[before:]] == [True]
    driver.all_is_well()


def loading(driver: Driver) -> str:
    """A run that loads until it is ended."""
    for run in driver.runs("long", "running"):
        return run
    run = driver.trigger("long", duration_s=150.0)
    driver.running(run, "load")
    return run


@ask.needs_root
def test_another_local_user_gets_nothing(driver: Driver) -> None:
    """While a server under test is up: no file, no process, no socket, no route without a login, nothing of the broker
    and of PerfDB, no model loaded; no answer and no command line has a secret in it."""
    run = loading(driver)
    endings = ask.attempts(driver.system.data_dir, "digits")
    assert ask.succeeded(endings, ask.secrets_of(driver.system.data_dir)) == []
    assert {ending["what"].partition("-")[0] for ending in endings} >= {
        "file", "process", "command", "http", "redis", "mongo", "model",
    }  # fmt: skip
    assert driver.tasks(run)["load"]["state"] == "running"


def test_a_user_ends_a_run(driver: Driver) -> None:
    """Marked failed while it loads: its device is free again, no server is left, no result."""
    run, before = loading(driver), len(driver.results("long"))
    driver.api("PATCH", run, json={"state": "failed"})
    driver.all_is_well()
    assert not driver.results("long")[before:]


def done_once(driver: Driver, dag: str) -> str:
    """A run of one job that has succeeded at its first try."""
    for run in driver.runs(dag, "success"):
        if {driver.tasks(run)[stage]["try_number"] for stage in ("serve", "load")} == {1}:
            return run
    run = driver.trigger(dag)
    driver.succeeded(run)
    return run


def test_a_user_clears_a_job(driver: Driver) -> None:
    """Cleared from ``load`` on, with its set-up ``serve``, a job waits for a device and is measured once more; what was
    measured before stays."""
    run = done_once(driver, "job-b")
    before = driver.results("job-b")
    driver.clear(run, "load")
    driver.until(lambda: driver.state(run) != "success", "nothing was cleared")
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["serve"]["try_number"] == tasks["load"]["try_number"] == 2
    assert len(driver.results("job-b")) == len(before) + 1
    driver.all_is_well()


def given_up(driver: Driver, run: str) -> bool:
    """Whether Airflow, by its database, failed a task for want of a heartbeat: it says so before its state changes."""
    query = """SELECT 1 FROM log JOIN task_instance USING (dag_id, run_id, task_id)
               WHERE dag_id = ? AND run_id = ? AND event = 'heartbeat timeout' AND state IS NOT 'running'"""
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
    """What tasks report to stands still: a load that did its work is failed, measured again, and has one result."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=5.0)
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
    """With jobs running and waiting, kill -9 of both API servers, dag-processor, broker, mongod, scheduler and a worker
    with a running server: each job ends well, once."""
    counts = {name: len(driver.results(f"job-{name}")) for name in "bdf"}
    runs = {name: driver.trigger(f"job-{name}", duration_s=LENGTHS[name] + 4) for name in counts}
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
    for name, before in counts.items():
        new = driver.results(f"job-{name}")[before:]
        assert len(new) == 1, (name, new)
    driver.all_is_well()


def test_a_worker_that_never_comes_back(driver: Driver) -> None:
    """Its job is run again on the other device, and its clean-up blocks nothing."""
    before = len(driver.results("long"))
    run = driver.trigger("long", duration_s=6.0)
    driver.running(run, "load")
    device = driver.tasks(run)["load"]["queue"]
    driver.kill("keeper")
    driver.kill("worker-" + device.rpartition(".")[2])
    driver.succeeded(run)
    assert driver.tasks(run)["load"]["queue"] != device
    assert len(driver.results("long")[before:]) == 1
    driver.all_is_well()
