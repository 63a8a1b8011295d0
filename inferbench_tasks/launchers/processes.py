"""Finding and ending the processes that a server consists of."""

from __future__ import annotations

import os
import signal
import time

import psutil

#: In the environment of a server and of all it starts: finds them even in sessions of their own.
MARK = "INFERBENCH_SERVER"
#: psutil derives creation times from the boot time, which moves when the clock is set.
CREATED_TOLERANCE_NS = 2_000_000_000


def created_ns(pid: int) -> int:
    """A process's creation time, Unix ns, with the clock tick's resolution (10 ms)."""
    return int(psutil.Process(pid).create_time() * 1e9)


def is_alive(pid: int, started_ns: int) -> bool:
    """Whether that very process runs; zombies and recycled pids don't."""
    try:
        process = psutil.Process(pid)
        same = abs(int(process.create_time() * 1e9) - started_ns) < CREATED_TOLERANCE_NS
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def members(token: str, pid: int = 0, started_ns: int = 0, uid: int | None = None) -> list[psutil.Process]:
    """The processes of a server: its session, its descendants, what carries its token, and what is its user's.

    Without a ``pid`` (the server was not recorded any further) only the token counts.
    """
    members_by_pid: dict[int, psutil.Process] = {}
    leader_is_ours = pid > 0 and is_alive(pid, started_ns)
    if leader_is_ours:
        try:
            leader = psutil.Process(pid)
            members_by_pid |= {p.pid: p for p in (leader, *leader.children(recursive=True))}
        except psutil.NoSuchProcess:
            pass  # it ended between the two looks: its session and token are searched below
    for process in psutil.process_iter():
        if process.pid == os.getpid() or process.pid in members_by_pid:
            continue
        try:
            if int(process.create_time() * 1e9) < started_ns - CREATED_TOLERANCE_NS:
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            # While a session has a member, its leader's pid is not given to anyone else.
            same_session = pid > 0 and os.getsid(process.pid) == pid and (leader_is_ours or not is_taken(pid))
            of_user = uid is not None and process.uids().real == uid
            if same_session or of_user or (token and process.environ().get(MARK) == token):
                members_by_pid[process.pid] = process
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or another user's: not ours
    return list(members_by_pid.values())


def of_session(leader: int) -> list[psutil.Process]:
    """What is alive of a session, whether its leader is or not."""
    in_session = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader:
                in_session.append(process)
        except (ProcessLookupError, PermissionError):
            continue
    return in_session


def end(processes: list[psutil.Process], grace_s: float) -> list[psutil.Process]:
    """SIGTERM, ``grace_s`` later SIGKILL; returns those that are still there (none, normally)."""
    alive = processes
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        for process in alive:
            try:
                process.send_signal(number)  # psutil refuses a recycled pid
            except psutil.NoSuchProcess:
                continue
        alive = _wait(alive, wait_s)
        if not alive:
            return []
    return alive


def is_taken(pid: int) -> bool:
    """Whether a running process has that pid; a zombie is not running any more."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(processes: list[psutil.Process], wait_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + wait_s
    pause_s = 0.002
    while True:
        processes = [p for p in processes if _runs(p)]
        if not processes or time.monotonic() >= deadline:
            return processes
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
