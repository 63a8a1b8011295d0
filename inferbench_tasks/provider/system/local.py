"""The whole system on one machine: api-server, scheduler, dag-processor, and what the executor needs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from filelock import FileLock

from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.provider.system import processes
from inferbench_tasks.provider.system.config import environment, passwords
from inferbench_tasks.provider.system.processes import Process

AIRFLOW = [sys.executable, "-m", "airflow"]
#: A cold import of Airflow on two busy cores takes half a minute; three processes do it at once.
START_TIMEOUT_S = 240.0
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

    def up(self, *, dags: Path, submissions: Path, port: int | None, say: Say) -> None:
        """Start everything and wait until it is healthy; on failure nothing is left running."""
        self.home.mkdir(parents=True, exist_ok=True)
        with FileLock(self.home / "up.lock"):
            if alive := self.running():
                names = ", ".join(p.name for p in alive)
                raise InputError(
                    f"The system is up already ({names}) at {self.url()}; `inferbench down` ends it."
                )
            port = port or free_port()
            env = os.environ | environment(
                self.home, port=port, dags=dags, submissions=submissions, data_dir=self.data_dir
            )
            say("preparing the metadata database")
            self._migrate(env)
            (self.home / "url").write_text(f"http://127.0.0.1:{port}")
            started: list[Process] = []
            try:
                for name in ("api-server", "scheduler", "dag-processor"):
                    say(f"starting {name}")
                    started.append(processes.start(name, [*AIRFLOW, name], env, self.home / "logs"))
                    processes.save(self.state_path, started)
                self._wait_healthy(started, say)
            except BaseException:
                processes.end(started)
                raise

    def down(self, say: Say) -> int:
        """End all of it, whatever state it is in; returns how many processes were found alive."""
        alive = self.running()
        for process in alive:
            say(f"ending {process.name}")
        processes.end(processes.load(self.state_path))
        self.state_path.unlink(missing_ok=True)
        return len(alive)

    def token(self, user: str = "admin") -> str:
        """A bearer token of a user, for the REST API."""
        login = {"username": user, "password": passwords(self.home)[user]}
        answer = httpx.post(f"{self.url()}/auth/token", json=login, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def _migrate(self, env: dict[str, str]) -> None:
        done = subprocess.run(
            [*AIRFLOW, "db", "migrate"], env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ServerError(f"The metadata database can't be made:\n{done.stderr.strip()[-2000:]}")

    def _wait_healthy(self, started: list[Process], say: Say) -> None:
        say("waiting until all are healthy")
        deadline = time.monotonic() + START_TIMEOUT_S
        state: dict[str, str] = {}
        while time.monotonic() < deadline:
            for process in started:
                if not process.alive():
                    raise processes.died(process)
            state = health(self.url())
            if all(state.get(part) == "healthy" for part in ("metadatabase", "scheduler", "dag_processor")):
                return
            time.sleep(0.5)
        raise ServerError(
            f"The system is not healthy after {START_TIMEOUT_S:.0f} s: {state}; logs: {self.home}/logs"
        )


def health(url: str) -> dict[str, str]:
    """Part -> status, from Airflow's own monitor; empty while it does not answer."""
    try:
        answer = httpx.get(f"{url}/api/v2/monitor/health", timeout=5)
    except httpx.TransportError:
        return {}
    if answer.status_code != 200:
        return {}
    return {
        part: str(value.get("status")) for part, value in answer.json().items() if isinstance(value, dict)
    }


def free_port() -> int:
    """A TCP port on loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
