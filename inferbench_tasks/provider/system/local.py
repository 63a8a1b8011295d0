"""The whole system on one machine: Airflow's processes, a broker, PerfDB, workers, and a keeper of them all."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from filelock import FileLock

from inferbench_tasks import extras, private, settings
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import InputError
from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider import metadata_db
from inferbench_tasks.provider.airflow_command import API_SERVER, DAG_PROCESSOR, EXECUTION, PUBLIC, TRIGGERER
from inferbench_tasks.provider.joining.listening import GATEWAY, Listening
from inferbench_tasks.provider.joining.signing import SigningKey
from inferbench_tasks.provider.queues import HOST
from inferbench_tasks.provider.system import broker, own_servers, processes
from inferbench_tasks.provider.system.config import (
    BROKER_URL,
    CELERY_BROKER_URL,
    EXECUTION_URL,
    METADATA_DB,
    broker_password,
    environment,
    passwords,
)
from inferbench_tasks.provider.system.keeper import KEEPER
from inferbench_tasks.provider.system.processes import Process
from inferbench_tasks.provider.system.ready import EXECUTION_API, HOST_WORKER, missing_of, wait_until_healthy
from inferbench_tasks.workers.agent import celery_command
from inferbench_tasks.workers.devices import find, spare_cores

AIRFLOW = [sys.executable, "-m", "inferbench_tasks.provider.airflow_command"]
AIRFLOW_PARTS = (API_SERVER, EXECUTION_API, "scheduler", DAG_PROCESSOR, TRIGGERER)
Say = Callable[[str], None]


@dataclass(frozen=True)
class LocalSystem:
    """A system whose state lies in ``<data_dir>/system``."""

    data_dir: Path

    @property
    def home(self) -> Path:
        """Its AIRFLOW_HOME: metadata, secrets, logs and the state file."""
        return self.data_dir / "system"

    @property
    def state_path(self) -> Path:
        """Where its processes are written down."""
        return self.home / "processes.json"

    def running(self) -> list[Process]:
        """Its processes that are alive."""
        return [p for p in processes.load(self.state_path) if p.alive()]

    def url(self) -> str:
        """Where its UI and REST API answer."""
        return (self.home / "url").read_text().strip()

    def up(
        self, *, dags: Path, submissions: Path, port: int | None, say: Say, workers: Sequence[str] = ("cpu",),
        gateway: Listening | None = None,
    ) -> None:  # fmt: skip
        """Start everything and wait until it is healthy; on failure nothing is left running.

        ``workers``: a device each, as ``inferbench worker --device`` takes it. ``gateway``: where workers of other
        hosts join.
        """
        extras.require("cluster")
        settings.writable(self.data_dir)
        private.folder(self.home)
        with FileLock(self.home / "up.lock"):
            if alive := self.running():
                names = ", ".join(p.name for p in alive)
                raise InputError(
                    f"The system is up already ({names}) at {self.url()}; `inferbench down` ends it."
                )
            if port is not None and is_taken(port):
                raise InputError(
                    f"--port {port} is taken by another program; name another, or none for a free one."
                )
            own_servers.require()
            port, execution_port, broker_port = port or free_port(), free_port(), free_port()
            variables = environment(
                self.home, port=port, execution_port=execution_port, broker_port=broker_port, dags=dags,
                submissions=submissions, data_dir=self.data_dir,
            )  # fmt: skip
            if gateway:
                variables |= SigningKey.of(self.home).environment
            env = os.environ | variables
            self._write_environment(variables)
            started: list[Process] = []
            try:
                say("starting PerfDB")
                with PerfDB.connect(settings.perfdb_uri(), self.data_dir) as db:
                    # Before any worker asks: what an earlier version said would have it refused.
                    Hosts(db).lead(own(), settings.home_id(self.data_dir))
                say("preparing the metadata database")
                self._migrate(env)
                (self.home / "url").write_text(f"http://127.0.0.1:{port}")
                more = {GATEWAY: gateway.command(self.home, dags, submissions)} if gateway else {}
                parts = self._parts(broker_port, execution_port, workers, say, more)
                (self.home / "parts.json").write_text(json.dumps(parts))
                for name, command in parts.items():
                    say(f"starting {name}")
                    started.append(processes.start(name, command, env, self.home / "logs"))
                    processes.save(self.state_path, started)
                say("waiting until all are healthy")
                wait_until_healthy(
                    missing_of(
                        self.url(),
                        env[EXECUTION_URL],
                        env[CELERY_BROKER_URL],
                        self.data_dir,
                        started,
                        len(workers),
                    ),
                    self.home / "logs",
                    say,
                )
                command = [sys.executable, "-m", "inferbench_tasks.provider.system.keeper", str(self.home)]
                keeper = processes.start(KEEPER, command, env, self.home / "logs")
                processes.save(self.state_path, [keeper, *processes.load(self.state_path)])
            except BaseException:
                processes.end(started)
                self._stop_perfdb()
                raise

    def _parts(
        self,
        broker_port: int,
        execution_port: int,
        workers: Sequence[str],
        say: Say,
        more: dict[str, list[str]],
    ) -> dict[str, list[str]]:
        """Name -> command, in the order of their start; off the devices' cores where there are others."""
        parts: dict[str, list[str]] = {}
        if not os.environ.get(BROKER_URL):
            parts["broker"] = broker.command(
                self.home, broker_port, broker_password(self.home), bounded=GATEWAY in more
            )
        parts |= {name: [*AIRFLOW, name] for name in AIRFLOW_PARTS}
        parts[API_SERVER] += ["--apps", PUBLIC]
        parts[EXECUTION_API] = [*AIRFLOW, API_SERVER, "--apps", EXECUTION, "--port", str(execution_port)]
        # Its log server listens on all interfaces; who reads logs here reads the files.
        parts[TRIGGERER].append("--skip-serve-logs")
        # Generating and converting models must not take the CPU from a measurement: it comes last.
        parts[HOST_WORKER] = [
            *(sys.executable, "-m", "inferbench_tasks.background"),
            *("env", f"{settings.WORKER}=host"),
            *celery_command(HOST, HOST, 2),
        ]
        parts |= more
        if cores := spare_cores(find(device) for device in workers):
            taskset = ["taskset", "--cpu-list", ",".join(map(str, cores))]
            parts = {name: [*taskset, *command] for name, command in parts.items()}
        else:
            say(
                "no core is left for Airflow: it runs on those of the devices, and can make short runs invalid"
            )
        for device in workers:
            command = [sys.executable, "-m", "inferbench_tasks.cli.main", "worker", "--device", device]
            parts[f"worker-{device.replace(':', '-')}"] = command
        return parts

    def _write_environment(self, variables: dict[str, str]) -> None:
        """For commands of other shells (``worker``, ``airflow``); secrets are in it."""
        private.write(self.home / "environment.json", json.dumps(variables, indent=1))

    def environment(self) -> dict[str, str]:
        """What its processes run with; raises InputError where there never was a system."""
        path = self.home / "environment.json"
        if not path.exists():
            raise InputError(f"There is no system in {self.data_dir}; `inferbench up` starts one.")
        variables: dict[str, str] = json.loads(path.read_text())
        return variables

    def down(self, say: Say) -> int:
        """End all of it, whatever state it is in; returns how many processes were found alive."""
        alive = self.running()
        # The keeper first, so that it starts nothing again; the workers next, so that they end their servers.
        parts = processes.load(self.state_path)
        for group in (
            [p for p in parts if p.name == KEEPER],
            [p for p in parts if p.name.startswith("worker")],
            [p for p in processes.load(self.state_path) if p.name != KEEPER],
        ):
            for process in group:
                if process.alive():
                    say(f"ending {process.name}")
                    if process.name.startswith("worker-") and process.name != HOST_WORKER:
                        processes.signal_to(
                            process, signal.SIGINT
                        )  # its second signal follows: it waits for no job
            processes.end(group)
        processes.end_by_environment("AIRFLOW_HOME", str(self.home))
        for run_id in records.sweep(settings.servers_dir(self.data_dir), lambda run: bool(alive)):
            say(f"ended the server of run {run_id}")
        self.state_path.unlink(missing_ok=True)
        return len(alive) + self._stop_perfdb()

    def _stop_perfdb(self) -> bool:
        return settings.perfdb_uri() is None and embedded.stop(self.data_dir)

    def token(self, user: str = "admin") -> str:
        """A bearer token of a user, for the REST API."""
        login = {"username": user, "password": passwords(self.home)[user]}
        answer = httpx.post(f"{self.url()}/auth/token", json=login, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def _migrate(self, env: dict[str, str]) -> None:
        if METADATA_DB in os.environ:
            metadata_db.run_migration(env)
        else:
            metadata_db.migrate(self.home / "airflow.db", self.data_dir)


def is_taken(port: int) -> bool:
    """Whether somebody listens on a TCP port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def free_port() -> int:
    """A TCP port on loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
