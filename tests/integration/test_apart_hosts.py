"""A job on two hosts at once: its stages go where they belong, and what one writes the other reads."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.state import cluster_state
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.networks.reached_address import ADDRESS
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import PIPELINES
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.fence import Fence
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.submission.reader import read_submission_text
from tests.apart_pipeline import install, submission
from tests.local_system import Driver, local_system
from tests.warm import warm

pytestmark = pytest.mark.integration
JOB, RUN = "apart|manual__2026-01-01T00:00:00+00:00|000", "manual__2026-01-01T00:00:00+00:00"


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is installed for the time of a test."""
    monkeypatch.syspath_prepend(install(tmp_path / "site"))
    PIPELINES.__dict__.pop("_plugins", None)
    yield
    PIPELINES.__dict__.pop("_plugins", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "inferbench_apart"]:
        del sys.modules[name]


def on_host(home: Path, uri: str, device: str, given: dict[str, Any], *stages: str) -> dict[str, Any]:
    """What these stages give on a device of that host: in a process of its own, as each of Airflow's tasks."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_run, args=(home, uri, device, json.dumps(given), stages, answers))
    process.start()
    try:
        answer = answers.get(timeout=120)
    finally:
        process.join(timeout=30)
    if isinstance(answer, BaseException):
        raise answer
    found: dict[str, Any] = json.loads(answer)
    return found


def _run(home: Path, uri: str, device: str, given: str, stages: tuple[str, ...], answers: Any) -> None:
    os.environ |= {settings.DATA_DIR: str(home), settings.PERFDB_URI: uri}
    outputs = json.loads(given)
    try:
        for node in compile_plan(read_submission_text(submission("apart"), "x.yaml", INSTALLED)).nodes:
            if node.stage in stages:
                outputs[node.id] = execute_node(
                    node,
                    {name: outputs[need] for name, need in node.needs.items() if need in outputs},
                    invocation=Invocation.of_dag_run(home, "apart", RUN),
                    base_dir=home,
                    hold_machine=False,
                    fence=None if node.cleans_up else Fence(device, JOB),
                )
        answers.put(json.dumps(outputs))
    except InferBenchError as error:
        answers.put(error)


def leased(db: PerfDB, *homes: Path) -> list[str]:
    """A device of each host, held together by the job; the first is its own."""
    cluster, names = Cluster(db), []
    for home in homes:
        home.mkdir()
        names.append(f"{home.name}.cpu")
        device = {
            "device_id": names[-1],
            "device_type": "cpu",
            "name": "c",
            "host": "h",
            "home": settings.home_id(home),
        }
        cluster.register(Device.model_validate(device))
    spec = {"elsewhere": ["cpu"], "n_devices": 1}
    lease = cluster.grant(names[0], JOB, spec=spec, run_id="", now_s=0, est_end_s=9, others=names[1:])
    assert lease is not None
    return names


def test_what_one_host_writes_the_other_reads(
    apart: None, perfdb: PerfDB, perfdb_uri: str, tmp_path: Path
) -> None:
    """Each stage is told of the device of its own host; files come and go as artifacts, none by its path; the run names
    both devices with each stage."""
    here, there = tmp_path / "here", tmp_path / "there"
    own, other = leased(perfdb, here, there)
    outputs = on_host(here, perfdb_uri, own, {}, "begin")
    assert str(here) not in json.dumps(outputs)
    outputs = on_host(there, perfdb_uri, other, outputs, "look")
    assert str(there) not in json.dumps(outputs)
    outputs = on_host(here, perfdb_uri, own, outputs, "end")
    homes = [settings.home_id(home) for home in (here, there)]
    pipeline = PIPELINES.load("apart")
    run_id = Invocation.of_dag_run(here, "apart", RUN).run_id(0)
    (result,) = perfdb.results_of(pipeline.result(), {"run_id": run_id})
    document = result.model_dump(mode="json")
    assert document["homes"] == [homes[0], homes[1], homes[0]] and document["read"] == " ".join(homes)
    assert document["devices"] == [[own], [other]]
    stages = {record.stage: record for record in perfdb.get_run(run_id).stages}
    for stage in ("begin", "look"):
        assert list(stages[stage].model_dump()["devices"]) == [own, other]


@pytest.mark.parametrize("stage", ["begin", "look"])
def test_a_stage_that_came_to_the_wrong_host_does_nothing(
    stage: str, apart: None, perfdb: PerfDB, perfdb_uri: str, tmp_path: Path
) -> None:
    """What it found there would be told of the other one."""
    own, other = leased(perfdb, tmp_path / "here", tmp_path / "there")
    given = {}
    if stage == "look":
        given = on_host(tmp_path / "here", perfdb_uri, own, {}, "begin")
    home, device = (tmp_path / "there", other) if stage == "begin" else (tmp_path / "here", own)
    with pytest.raises(InferBenchError, match=f"came to {device}. Submit the job again"):
        on_host(home, perfdb_uri, device, given, stage)
    assert not list(home.rglob("looked.txt")) and not list((tmp_path / "there").rglob("begun.txt"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A whole system, whose workers share its data directory."""
    base = tmp_path_factory.mktemp("apart")
    warm(base / "data", tmp_path_factory)

    def write(folder: Path) -> None:
        (folder / "apart.yaml").write_text(submission("apart"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(install(tmp_path_factory.mktemp("site"))))
        # The hosts of this test are data directories of one machine, which is no two hosts without this.
        patch.setenv(settings.ONE_MACHINE_AS_HOSTS, "1")
        patch.setenv(ADDRESS, "127.0.0.1")
        with local_system(base, write) as running:
            yield running


def second_host(driver: Driver, home: Path) -> subprocess.Popen[bytes]:
    """A worker with a data directory of its own."""
    (home / "airflow").mkdir(parents=True)
    env = os.environ | driver.system.environment() | {
        settings.DATA_DIR: str(home), settings.PERFDB_URI: driver.db.uri or "", "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "airflow" / "logs"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow/none.db",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "none"),
    }  # fmt: skip
    with open(home / "worker.log", "ab") as log:
        # Device and queue have the host's name, which is one here: another set of cores is another device.
        device = f"cpu:0-{len(os.sched_getaffinity(0)) - 1}"
        serve = [sys.executable, "-m", "inferbench_tasks.cli.main", "worker", "--device", device]
        return subprocess.Popen(serve, env=env, stdout=log, stderr=log, cwd=home)


@pytest.mark.long  # what goes to each of two hosts of a whole system: tests/integration/test_three_hosts.py
@pytest.mark.airflow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two sets of cores are two devices; there is one core"
)
def test_a_whole_system_runs_a_job_on_two_hosts(driver: Driver, tmp_path: Path) -> None:
    """With one host it waits and says why; once a worker of another one is there, the scheduler holds a device of each,
    and sends each stage to its own. Loads and trainings between hosts: ``test_three_hosts``."""
    run = driver.trigger("apart")
    home = tmp_path / "other"

    def waits() -> str:
        return next((w.why for w in cluster_state(driver.db).waiting if w.job.startswith("apart|")), "")

    driver.until(lambda: "Have one join: inferbench worker --join" in waits(), waits)
    worker = second_host(driver, home)
    try:
        assert driver.ended(run, timeout_s=400) == ["success"], (
            driver.tasks(run),
            (home / "worker.log").read_text()[-3000:],
        )
        (result,) = driver.db.collection("apart_results").find({"submission.name": "apart"})
        mine, other = settings.home_id(driver.system.data_dir), settings.home_id(home)
        assert set(result["homes"]) == {mine, other} and result["homes"][0] == result["homes"][2]
        assert result["read"] == " ".join(result["homes"][:2])
        driver.nothing_is_leased()
        driver.no_server_is_left()
        assert not list((home / "servers").glob("*.json"))
        driver.log_is_sound()
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=60)
