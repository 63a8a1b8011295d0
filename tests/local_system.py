"""A whole local system for tests: Airflow, broker, PerfDB, workers, driven through REST; and what must hold of it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.background import NICE
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.system import processes
from inferbench_tasks.provider.system.local import AIRFLOW, LocalSystem
from inferbench_tasks.scheduling.eventlog import differences, read_log
from inferbench_tasks.scheduling.events import LeaseGranted, NodeUp
from inferbench_tasks.workers.checks import BUSY
from inferbench_tasks.workers.devices import partitions

ROOT = Path(__file__).parents[1]
JOB = """
name: {name}
model: {{kind: zoo, name: digits}}
{more}
load:
  arrivals: {{kind: poisson, rate_rps: 50}}
  duration_s: {seconds}
  warmup_s: 0.5
  wait_for_quiet_s: 0
"""


def write_job(folder: Path, name: str, seconds: float, more: str = "") -> None:
    """A submission of one short job."""
    (folder / f"{name}.yaml").write_text(JOB.format(name=name, seconds=seconds, more=more))


TRAINING = """
kind: training
name: {name}
data: {{kind: digits, samples: {samples}}}
train: {{batch_size: 16, warmup_steps: 1, rounds: {rounds}}}
loader: {{workers: {workers}}}
devices: {{count: 2, strategy: ddp}}
"""


def write_training(folder: Path, name: str, *, samples: int, rounds: int, workers: int = 0) -> None:
    """A submission of one training on two devices, ``workers`` loader processes for each of its ranks."""
    text = TRAINING.format(name=name, samples=samples, rounds=rounds, workers=workers)
    (folder / f"{name}.yaml").write_text(text)


def shared_memory() -> set[str]:
    """The files of torch's loaders in shared memory."""
    return {path.name for path in Path("/dev/shm").glob("torch_*")}


class Driver:
    """Drives a running system as its users and its enemies do."""

    def __init__(self, system: LocalSystem) -> None:
        self.system = system
        # One client: each new one reads the certificates of the whole web, a tenth of what a test would compute.
        self._client = httpx.Client(
            base_url=f"{system.url()}/api/v2",
            timeout=60,
            headers={"Authorization": f"Bearer {system.token()}"},
        )
        self.db = PerfDB.connect(None, system.data_dir)

    def close(self) -> None:
        """Its connections; the system goes on."""
        self._client.close()
        self.db.close()

    def api(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A call of the REST API, repeated while the api-server is away."""
        deadline = time.monotonic() + 120
        while True:
            try:
                return self._client.request(method, path, **more)
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def trigger(self, dag: str, **conf: Any) -> str:
        """Start a DAG, as soon as Airflow knows it; the path of the run."""
        self.until(lambda: self.api("GET", f"/dags/{dag}").status_code == 200, f"{dag} is not known")
        answer = self.api("POST", f"/dags/{dag}/dagRuns", json={"logical_date": None, "conf": conf})
        assert answer.status_code == 200, answer.text
        return f"/dags/{dag}/dagRuns/{answer.json()['dag_run_id']}"

    def runs(self, dag: str, state: str) -> list[str]:
        """Of a DAG, in that state: what earlier tests took to bring one there need not be done again."""
        found = self.api("GET", f"/dags/{dag}/dagRuns", params={"state": state}).json()["dag_runs"]
        return [f"/dags/{dag}/dagRuns/{of['dag_run_id']}" for of in found]

    def state(self, run: str) -> str:
        """Of a DAG run."""
        return str(self.api("GET", run).json()["state"])

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        """Stage -> task instance, of a run of one job."""
        found = self.api("GET", f"{run}/taskInstances").json()["task_instances"]
        return {t["task_id"].rpartition(".")[2]: t for t in found}

    def until(
        self,
        check: Callable[[], Any],
        what: str | Callable[[], str],
        timeout_s: float = 180,
        every_s: float = 0.5,
    ) -> Any:
        """What ``check`` returns once it is true."""
        deadline = time.monotonic() + timeout_s
        while not (found := check()):
            assert time.monotonic() < deadline, what if isinstance(what, str) else what()
            time.sleep(every_s)
        return found

    def ended(self, *runs: str, timeout_s: float = 300) -> list[str]:
        """Wait for runs; their states."""
        self.until(
            lambda: all(self.state(run) in ("success", "failed") for run in runs),
            lambda: self._states(runs),
            timeout_s,
            every_s=1,
        )
        return [self.state(run) for run in runs]

    def succeeded(self, *runs: str, timeout_s: float = 300) -> None:
        """Wait for success; a run whose job is run again may look failed for a while, but not for a minute."""
        failed_at: dict[str, float] = {}

        def all_did() -> bool:
            states = {run: self.state(run) for run in runs}
            for run, state in states.items():
                if state != "failed":
                    failed_at.pop(run, None)
                assert time.monotonic() - failed_at.get(run, time.monotonic()) < 60, self._states(runs)
                if state == "failed":
                    failed_at.setdefault(run, time.monotonic())
            return set(states.values()) == {"success"}

        self.until(all_did, lambda: self._states(runs), timeout_s, every_s=1)

    def _states(self, runs: Sequence[str]) -> str:
        return str({run: {s: t["state"] for s, t in self.tasks(run).items()} for run in runs})

    def clear(self, run: str, *stages: str) -> None:
        """Clear these stages of a run of one job, as its user does, with what follows them."""
        dag, run_id = run.removeprefix("/dags/").split("/dagRuns/")
        told = {
            "dry_run": False, "dag_run_id": run_id, "task_ids": [f"job-000.{stage}" for stage in stages],
            "only_failed": False, "include_downstream": True, "reset_dag_runs": True,
        }  # fmt: skip
        answer = self.api("POST", f"/dags/{dag}/clearTaskInstances", json=told)
        assert answer.status_code == 200, answer.text

    def running(self, run: str, stage: str) -> None:
        """Wait until a stage runs."""
        self.until(lambda: self.tasks(run)[stage]["state"] == "running", f"{stage} of {run} does not run")

    def pid(self, name: str) -> int:
        """Of a part of the system that is alive."""
        found: psutil.Process | Any = self.until(
            lambda: next((p for p in self.system.running() if p.name == name), None), f"{name} is not up"
        )
        return int(found.pid)

    @contextmanager
    def second_scheduler(self) -> Iterator[None]:
        """Another scheduler on the same databases, while this lasts."""
        env = os.environ | self.system.environment()
        other = processes.start("scheduler-2", [*AIRFLOW, "scheduler"], env, self.system.home / "logs")
        logs = self.system.data_dir / "scheduling"
        try:
            self.until(
                lambda: list(logs.glob(f"*-{other.pid}-*.jsonl")), "the second scheduler did not start"
            )
            yield
        finally:
            processes.end([other])

    def kill(self, name: str) -> None:
        """kill -9."""
        os.kill(self.pid(name), signal.SIGKILL)

    def kill_task_on(self, device: str) -> None:
        """kill -9 of the task that runs on a device, and of all of Airflow and Celery above it."""

        def supervisors() -> list[int]:
            return [
                p.pid for p in psutil.process_iter(["cmdline", "environ"])
                if (p.info["environ"] or {}).get(settings.WORKER) == device
                and (p.info["environ"] or {}).get(settings.DATA_DIR) == str(self.system.data_dir)
                and "running.child_main" not in " ".join(p.info["cmdline"] or [])
                and "airflow worker" in " ".join(p.info["cmdline"] or [])
            ]  # fmt: skip

        # A process is forked before it has its name.
        for pid in self.until(supervisors, f"nothing runs on {device}", timeout_s=20):
            os.kill(pid, signal.SIGKILL)

    def results(self, name: str) -> list[Any]:
        """What was measured of a submission, the oldest first: valid, or invalid for what the certificate says of this
        machine (two devices on two cores, with a whole Airflow beside them)."""
        found = self.db.find_results({"submission.name": name})
        return [r for r in reversed(found) if r.verdict.measured]

    # -- what must hold -----------------------------------------------------------------------------

    def nothing_is_leased(self) -> None:
        """Every lease ends within seconds of its job."""
        devices = Cluster(self.db).devices
        self.until(lambda: not any(d.lease for d in devices()), lambda: f"still leased: {devices()}", 60)

    def no_server_is_left(self) -> None:
        """No record of a server, no process of one."""
        folder = self.system.data_dir / "servers"
        self.until(lambda: not list(folder.glob("*.json")), lambda: str(list(folder.glob("*"))), 60)
        mine = str(self.system.data_dir)
        left = [
            p.info["cmdline"]
            for p in psutil.process_iter(["cmdline"])
            if "inferbench_tasks.servers.main" in (p.info["cmdline"] or [])
            and mine in " ".join(p.info["cmdline"])
        ]
        assert not left

    def log_is_sound(self) -> list[LeaseGranted]:
        """No device was leased twice (the index refuses that), each decision follows from the events, no lease of a
        device went to two jobs; all grants of all schedulers."""
        grants: dict[tuple[str, int | None], str] = {}
        names: dict[str, tuple[str, ...]] = {}
        found = []
        for path in sorted((self.system.data_dir / "scheduling").glob("*.jsonl")):
            log = read_log(path)
            assert list(differences(log)) == []
            for event in log.events:
                if isinstance(event, NodeUp):
                    names[event.node_id] = event.names
                if isinstance(event, LeaseGranted):
                    for device in event.devices:
                        key = (names[event.node_id][device], event.token)
                        assert grants.setdefault(key, event.job_id) == event.job_id
                    found.append(event)
        return found

    def all_is_well(self) -> None:
        """After whatever happened."""
        self.nothing_is_leased()
        self.no_server_is_left()
        self.log_is_sound()


def once_each(grants: list[LeaseGranted], names: list[str], *, before: Sequence[LeaseGranted] = ()) -> bool:
    """Whether each of these DAGs' jobs got a device once since ``before``."""
    counted = Counter(JobKey.parse(g.job_id).dag_id for g in grants)
    counted.subtract(JobKey.parse(g.job_id).dag_id for g in before)
    return all(counted[name] == 1 for name in names)


@contextmanager
def local_system(
    base: Path, write: Callable[[Path], object], *, interference: str = "note"
) -> Iterator[Driver]:
    """A system with two workers; ``write`` puts submissions into its folder. Nothing of it is left afterwards.

    ``interference``: what becomes of a run beside which something else worked (``INFERBENCH_INTERFERENCE``).
    """
    folder = base / "submissions"
    folder.mkdir()
    write(folder)
    system = LocalSystem(base / "data")
    cores = len(os.sched_getaffinity(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.DATA_DIR, str(base / "data"))
        # Other tests and the system itself keep two cores busy: that is not what is tested here.
        patch.setenv(MODE, interference)
        patch.setenv(BUSY, "2")
        # And nothing is measured whose figures count: what comes last elsewhere would wait for all other tests here.
        patch.setenv(NICE, "0")
        devices = partitions(2) if cores > 1 else ["cpu:0"]
        system.up(dags=ROOT / "dags", submissions=folder, port=None, say=print, workers=devices)
        try:
            driver = Driver(system)
            yield driver
            driver.close()
        finally:
            pids = [p.pid for p in system.running()]
            system.down(say=print)
            left = [
                pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"
            ]
            assert not left
            mine = [
                p.info["cmdline"]
                for p in psutil.process_iter(["cmdline", "environ"])
                if (p.info["environ"] or {}).get(settings.DATA_DIR) == str(base / "data")
                and p.pid != os.getpid()
                and p.status() != psutil.STATUS_ZOMBIE
            ]
            assert not mine
