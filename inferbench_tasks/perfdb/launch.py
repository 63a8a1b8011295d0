"""Start the embedded mongod as a daemon, and end it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from inferbench_tasks import private, settings
from inferbench_tasks.errors import PerfDBError, StorageError
from inferbench_tasks.perfdb import credentials, mongod, mongod_log, replicaset
from inferbench_tasks.perfdb import folder as folders
from inferbench_tasks.perfdb.server_state import ServerState, running_on

log = logging.getLogger(__name__)

#: From the start to the first primary; recovery after a kill -9 of a large database is the long case.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
#: A killed server keeps its port and its data locked until the kernel has taken it apart.
DYING_S = 5.0
ATTEMPTS = 5
#: Exit codes of mongod.
ADDRESS_IN_USE, DB_PATH_IN_USE = 48, 100
#: Without preallocation a new database takes 17 MB instead of 301.
STORAGE = (
    "log=(prealloc=false,file_max=16MB),"
    "file_manager=(close_handle_minimum=100,close_idle_time=5,close_scan_interval=5)"
)
#: Nobody reads the past. With mongod's 300 s each dropped database keeps its hundred files open for so long: ninety of
#: them took a server past 9,000 open files.
HISTORY_S = 5
OPLOG_MB = 128
CACHE_GB = 0.25


def start(folder: Path) -> ServerState:
    """Start the server on that folder's data and wait until it takes writes; the caller holds the lock.

    It gets its last port again if that is free, so that its URI stays. Raises PerfDBError, StorageError.
    """
    program = mongod.find()
    mongod.require_avx()
    folders.require_space(folder)
    deadline = time.monotonic() + START_TIMEOUT_S
    last = ServerState.read(folder)
    port = last.port if last and _is_free(last.port, DYING_S) else _free_port()
    for _ in range(ATTEMPTS):
        moving = (folder / "db" / "WiredTiger").exists() and (last is None or last.port != port)
        state = _launch(program, folder, port) if not moving or _move(program, folder, port) else None
        if state is None:
            port = _free_port()
        elif wait_for_primary(state, folder, deadline):
            log.info("embedded mongod ready pid=%d port=%d", state.pid, port)
            return state
        else:
            last = state
    raise PerfDBError(
        f"The embedded mongod did not come up in {ATTEMPTS} attempts: it was killed as soon as it ran, or its "
        f"ports were taken. See {folder / 'mongod.log'}."
    )


def wait_for_primary(state: ServerState, folder: Path, deadline: float) -> bool:
    """Wait until the server takes writes; False if it dies instead."""
    login = credentials.drawn(folder)
    return replicaset.make_primary(state.port, deadline, lambda: state.is_alive(folder / "db"), login)


def adopted(folder: Path) -> ServerState | None:
    """The live mongod on our data, whoever started it; its whereabouts are written down."""
    state = running_on(folder / "db")
    if state is not None:
        state.write(folder)
    return state


def end(pid: int) -> None:
    """End a mongod cleanly, by force if it does not obey."""
    process = psutil.Process(pid)
    process.send_signal(signal.SIGTERM)
    if _gone(process, STOP_TIMEOUT_S):
        return
    log.warning("mongod did not stop within %.0f s, killing it pid=%d", STOP_TIMEOUT_S, pid)
    process.kill()
    if not _gone(process, STOP_TIMEOUT_S):
        raise PerfDBError(f"The embedded mongod (pid {pid}) can't be ended, even by SIGKILL.")


def _gone(process: psutil.Process, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def _move(program: Path, folder: Path, port: int) -> bool:
    """Write the new port into the set's configuration, before its server looks for itself at the old one.

    What listens at the old port now could let it wait for half a minute. False if the port was taken.
    """
    state = _launch(program, folder, port, ["--setParameter", "disableLogicalSessionCacheRefresh=true"])
    if state is None:
        return False
    replicaset.rewrite_address(port, credentials.drawn(folder))
    end(state.pid)
    return True


def _launch(
    program: Path, folder: Path, port: int, mode: Sequence[str] = ("--replSet", replicaset.NAME)
) -> ServerState | None:
    """Start mongod as a daemon; None if the port was taken meanwhile."""
    (folder / "db").mkdir(mode=0o700, exist_ok=True)
    credentials.drawn(folder)
    log_path = folder / "mongod.log"
    log_start = log_path.stat().st_size if log_path.exists() else 0
    command = [str(program), "--dbpath", str(folder / "db"), "--port", str(port), "--bind_ip", "127.0.0.1"]
    # No Unix socket: its path is limited to 107 characters, and nobody needs it. No compression: reading what is
    # compressed before the login has let strangers read this server's memory (CVE-2025-14847).
    command += ["--nounixsocket", "--oplogSize", str(OPLOG_MB), "--networkMessageCompressors", "disabled"]
    command += ["--keyFile", str(folder / credentials.FILE)]
    command += ["--wiredTigerCacheSizeGB", str(CACHE_GB), "--wiredTigerEngineConfigString", STORAGE]
    command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
    command += ["--setParameter", f"minSnapshotHistoryWindowInSeconds={HISTORY_S}"]
    command += ["--logpath", str(log_path), "--logappend", "--fork", *mode]
    give_up = time.monotonic() + DYING_S
    while True:
        process = _run(command, folder)
        if process.returncode == 0 and (state := adopted(folder)):
            _allow_files(state.pid)
            return state
        if process.returncode == ADDRESS_IN_USE:
            return None
        if process.returncode != DB_PATH_IN_USE or time.monotonic() > give_up:
            raise _not_started(program, folder, process, mongod_log.complaints(log_path, log_start))
        time.sleep(0.2)


def _allow_files(pid: int) -> None:
    """As many open files as may be: a login's usual 1,024 are few databases, and a mongod without a file left ends."""
    server = psutil.Process(pid)
    _, hard = server.rlimit(psutil.RLIMIT_NOFILE)
    server.rlimit(psutil.RLIMIT_NOFILE, (hard, hard))


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """With --fork the program returns when its daemon takes connections, or has failed.

    It is everybody's, also where a device's task is who starts it: what ends that device's leftovers must not find it.
    """
    try:
        return subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=START_TIMEOUT_S,
            cwd=folder,
            umask=private.UMASK,
            env={name: value for name, value in os.environ.items() if name != settings.WORKER},
        )
    except subprocess.TimeoutExpired as error:
        raise PerfDBError(
            f"The embedded mongod did not start within {START_TIMEOUT_S:.0f} s; see {folder / 'mongod.log'}."
        ) from error
    except OSError as error:
        raise PerfDBError(f"{command[0]} can't be run: {error.strerror}.") from error


def _not_started(
    program: Path, folder: Path, process: subprocess.CompletedProcess[str], complaints: str
) -> PerfDBError | StorageError:
    if process.returncode == mongod.ILLEGAL_INSTRUCTION:
        return mongod.no_avx()
    if "no space left" in complaints.lower():
        return folders.no_space(folder)
    if process.returncode == DB_PATH_IN_USE and "another mongod" in complaints.lower():
        return PerfDBError(
            f"{folder / 'db'} is in use by a mongod that this process can't see (of another container or "
            f"machine?). End it, use another data directory, {mongod.REMEDY}."
        )
    words = complaints or process.stdout.strip() or process.stderr.strip()
    return PerfDBError(
        f"The embedded mongod did not start (exit code {process.returncode}): {program}\n{words}\n"
        f"Log: {folder / 'mongod.log'}"
    )


def _is_free(port: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                if time.monotonic() > deadline:
                    return False
            else:
                return True
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
