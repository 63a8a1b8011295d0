"""The processes of a local system: started detached, found again by pid and creation time, ended as groups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from inferbench_tasks import private
from inferbench_tasks.errors import ServerError
from inferbench_tasks.launchers.processes import of_session

#: How long what was killed may take to be gone.
_GONE_S = 5.0
#: What this process started and has to reap; they outlive it otherwise.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Process:
    """One process of the system; it leads its own session, so ``pid`` is its group as well."""

    name: str
    pid: int
    started: float
    log: str

    def alive(self) -> bool:
        """Whether that very process (not a recycled pid) still runs."""
        try:
            process = psutil.Process(self.pid)
            return (
                abs(process.create_time() - self.started) < 0.1 and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return False


def start(name: str, command: list[str], env: dict[str, str], logs: Path) -> Process:
    """Start a process in a session of its own, its output in ``<logs>/<name>.log``."""
    private.folder(logs)
    path = logs / f"{name}.log"
    with open(path, "ab") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True,
            # Python looks for packages where it is started: in a checkout Airflow would find our plugin twice.
            cwd=logs.parent, umask=private.UMASK,
        )  # fmt: skip
    _children[child.pid] = child
    return Process(name, child.pid, psutil.Process(child.pid).create_time(), str(path))


def end(processes: list[Process], *, grace_s: float = 15.0) -> None:
    """End each with everything it started: SIGTERM, then SIGKILL to what is left of its session."""
    alive = [p for p in processes if p.alive()]
    sessions = {p.pid for p in alive}
    members = {m.pid: m for s in sessions for m in of_session(s)}
    for process in alive:
        _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and any(p.alive() for p in alive):
        _reap(p.pid for p in alive)
        time.sleep(0.1)
    members |= {m.pid: m for s in sessions for m in of_session(s)}
    for member in members.values():
        if member.is_running():
            _signal(member.pid, signal.SIGKILL)
    for process in alive:  # what was killed a moment ago may not have ended yet
        if (child := _children.get(process.pid)) is not None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GONE_S)
    _reap(_children)  # also those that were killed and replaced before: nobody else asks after them


def signal_to(process: Process, number: int) -> None:
    """Send one signal, and wait for nothing."""
    _signal(process.pid, number)


def end_session(leader: int) -> None:
    """Kill what a dead process left of its session."""
    for member in of_session(leader):
        _signal(member.pid, signal.SIGKILL)
    _reap([leader])


def end_by_environment(name: str, value: str, patience_s: float = 5.0) -> None:
    """Kill what is left with that variable: orphans whose parents were killed before they could end them.

    They may start others meanwhile, and take a moment to end: it looks again until there is none.
    """
    deadline = time.monotonic() + patience_s
    while (survivors := _with_variable(name, value)) and time.monotonic() < deadline:
        for process in survivors:
            _signal(process.pid, signal.SIGKILL)
        psutil.wait_procs(survivors, timeout=0.5)


def _with_variable(name: str, value: str) -> list[psutil.Process]:
    matching = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(name) == value:
                matching.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return matching


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _reap(pids: Iterable[int]) -> None:
    """Take note that these children have ended, if they have: each stays a zombie until then."""
    for pid in list(pids):
        if (child := _children.get(pid)) is not None and child.poll() is not None:
            del _children[pid]


def save(path: Path, processes: list[Process]) -> None:
    """Write the state file atomically."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps([asdict(p) for p in processes]))
    os.replace(temporary, path)


def load(path: Path) -> list[Process]:
    """The processes of the state file; none if there is none."""
    return [Process(**p) for p in json.loads(path.read_text())] if path.exists() else []


def end_of_log(process: Process, lines: int = 12) -> str:
    """The last lines that a process wrote."""
    return "\n".join(Path(process.log).read_text(errors="replace").splitlines()[-lines:])


def died(process: Process) -> ServerError:
    """The error of a process that ended while it was starting."""
    return ServerError(
        f"{process.name} ended while it was starting; its log ends with:\n{end_of_log(process)}"
    )
