"""Where the embedded server runs, as written down, and whether that is still true."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from inferbench_tasks.perfdb import replicaset
from inferbench_tasks.perfdb.address import host_of
from inferbench_tasks.perfdb.credentials import Credentials

FILE = "server.json"
#: Two readings of one process's creation time may differ by this much when the clock was set.
CLOCK_SLACK_S = 2.0


@dataclass(frozen=True)
class ServerState:
    """``created_s`` is the process's creation time (Unix time), so that a recycled pid is noticed."""

    pid: int
    created_s: float
    port: int
    program: str

    def uri(self, credentials: Credentials) -> str:
        """The address of the server as clients take it, with the login."""
        place = f"{credentials.login}127.0.0.1:{self.port}"
        return f"mongodb://{place}/?authSource=admin&replicaSet={replicaset.NAME}&w=majority"

    def asks_for_login(self) -> bool:
        """Whether it was started with a key; one of an earlier version lets in everybody on this machine."""
        try:
            return "--keyFile" in psutil.Process(self.pid).cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def serves(self, uri: str) -> bool:
        """Whether that URI is of this server, whatever database and options it names."""
        return host_of(uri) == f"127.0.0.1:{self.port}" and f"replicaSet={replicaset.NAME}" in uri

    @classmethod
    def read(cls, folder: Path) -> ServerState | None:
        """What was written last; None if nothing readable was (the server is then found by its data)."""
        try:
            written = json.loads((folder / FILE).read_bytes())
            return cls(
                int(written["pid"]), float(written["created_s"]), int(written["port"]), written["program"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Replace what was written, at once."""
        temporary = folder / f"{FILE}.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(asdict(self)))
        os.replace(temporary, folder / FILE)

    def is_alive(self, db: Path) -> bool:
        """Whether that very process runs on that very data folder."""
        state = _mongod_of(self.pid, db)
        return state is not None and abs(state.created_s - self.created_s) < CLOCK_SLACK_S


def running_on(db: Path) -> ServerState | None:
    """The mongod that has that data folder open, by the lock file that it keeps there."""
    try:
        pid = int((db / "mongod.lock").read_text().strip() or 0)
    except (OSError, ValueError):
        return None
    return _mongod_of(pid, db) if pid > 0 else None


def _mongod_of(pid: int, db: Path) -> ServerState | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.uids().effective != os.geteuid():
            return None
        arguments = process.cmdline()
        value_by_option = dict(itertools.pairwise(arguments))
        if value_by_option.get("--dbpath") != str(db) or not value_by_option.get("--port", "").isdigit():
            return None
        return ServerState(pid, process.create_time(), int(value_by_option["--port"]), arguments[0])
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
