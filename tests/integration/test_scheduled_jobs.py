"""The real executor, workers and Airflow: jobs get devices in the policy's order, as their users ask and end them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.system.local import LocalSystem
from tests.local_system import LENGTHS, ROOT, Driver, once_each, warm_system, write_job, write_jobs
from tests.probe_pipeline import install, submission
from tests.stranger import ask

pytestmark = [pytest.mark.integration, pytest.mark.airflow, pytest.mark.timeout(1200)]


def _write(folder: Path) -> None:
    write_jobs(folder)
    write_job(folder, "bad", 1.0, "serve: {ready_timeout_s: 0.01}")
    write_job(folder, "pair", 1.5, "sweep: {load.seed: [1, 2]}")
    (folder / "probe.yaml").write_text(submission("probe"))
    (folder / "broken.yaml").write_text((folder / "pair.yaml").read_text().replace("load:", "lod:"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(install(tmp_path_factory.mktemp("site"))))
        with warm_system(tmp_path_factory, _write) as running:
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


def test_jobs_share_the_devices_shortest_first(driver: Driver) -> None:
    """Six jobs, two devices: both are used, each job once, what waited started by length, Airflow shows the real
    queue, all are measured, and the log replays to the same decisions."""
    before = {name: len(driver.results(f"job-{name}")) for name in LENGTHS}
    leased = driver.log_is_sound()
    runs = {name: driver.trigger(f"job-{name}") for name in LENGTHS}
    seen: set[str] = set()

    def look() -> bool:
        state = cluster_state(driver.db)
        for device in state.devices:
            if device.job:
                seen.add(device.device_id)
        for waiting in state.waiting:
            assert waiting.why
        return all(driver.state(run) in ("success", "failed") for run in runs.values())

    driver.until(look, "the jobs did not end", 400, every_s=0.5)
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
    assert once_each(driver.log_is_sound(), [f"job-{name}" for name in LENGTHS], before=leased)


def test_a_failed_start_frees_the_device(driver: Driver) -> None:
    """A server that never gets ready: the job fails by itself, is not tried again, and its device is free."""
    run = driver.trigger("bad")
    assert driver.ended(run) == ["failed"]
    assert driver.tasks(run)["serve"]["try_number"] == 1
    found = driver.db.find_runs({"submission.name": "bad"})[0]
    assert str(found.verdict).startswith("failed: serve")
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


def test_a_second_pipeline_that_is_killed_is_run_again(driver: Driver) -> None:
    """kill -9 of its first task and all above it: it waits for a device again, elsewhere, and has one result."""
    before = len(waited_s(driver))
    run = driver.trigger("probe", seconds=10.0)
    driver.running(run, "wait")
    first = driver.tasks(run)["wait"]["queue"]
    driver.kill_task_on(first)
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["wait"]["try_number"] > 1
    assert tasks["wait"]["queue"] == tasks["note"]["queue"] != first
    assert [seconds >= 10.0 for seconds in waited_s(driver)[before:]] == [True]
    driver.all_is_well()


def test_a_user_ends_a_run(driver: Driver) -> None:
    """Marked failed while it loads: its device is free again, no server is left, no result."""
    before = len(driver.results("long"))
    run = driver.trigger("long")
    driver.running(run, "load")
    driver.api("PATCH", run, json={"state": "failed"})
    driver.all_is_well()
    assert not driver.results("long")[before:]


@ask.needs_root
def test_another_local_user_gets_nothing(driver: Driver) -> None:
    """While a server under test is up: no file, no process, no socket, no route without a login, nothing of the broker
    and of PerfDB, no model loaded; no answer and no command line has a secret in it."""
    run = driver.trigger("long")
    driver.running(run, "load")
    endings = ask.attempts(driver.system.data_dir, "digits")
    driver.api("PATCH", run, json={"state": "failed"})
    assert ask.succeeded(endings, ask.secrets_of(driver.system.data_dir)) == []
    assert {ending["what"].partition("-")[0] for ending in endings} >= {
        "file", "process", "command", "http", "redis", "mongo", "model",
    }  # fmt: skip
    driver.all_is_well()


def test_a_user_clears_a_job(driver: Driver) -> None:
    """Cleared from ``load`` on, with its set-up ``serve``, a job waits for a device and is measured once more; what was
    measured before stays."""
    run = driver.trigger("job-b")
    driver.succeeded(run)
    before = driver.results("job-b")
    driver.clear(run, "load")
    driver.until(lambda: driver.state(run) != "success", "nothing was cleared")
    driver.succeeded(run)
    tasks = driver.tasks(run)
    assert tasks["serve"]["try_number"] == tasks["load"]["try_number"] == 2
    assert len(driver.results("job-b")) == len(before) + 1
    driver.all_is_well()
