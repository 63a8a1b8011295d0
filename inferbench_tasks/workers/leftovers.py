"""What of a job is still at work on a device whose lease has ended.

A job that is lost on another device loses this one too, while a stage of it runs here: the Celery worker lives, and
Airflow ends the stage, with its senders, only at its next heartbeat. Where what is to end it has died itself (no room
on the disk, no memory), nobody would ever.
"""

from __future__ import annotations

import contextlib
import logging
import time

import psutil

from inferbench_tasks.launchers.processes import of_session

log = logging.getLogger(__name__)

#: Airflow gives up a task after three heartbeats that nobody hears, half a minute; then it waits for its end.
PATIENCE_S = 60.0
#: What did not end is told of, and ended, again after so long.
AGAIN_S = 10.0


class Leftovers:
    """Of one device. Looked for until nothing is found: to look at all processes takes of the machine, on which others
    may be measured."""

    def __init__(self) -> None:
        self._since: float | None = None

    def expect(self) -> None:
        """A lease has ended, and what its job ran here was not seen to have ended too."""
        self._since = time.monotonic()

    def at_work(self, worker: int | None) -> str:
        """In words, "" where nothing is; what stays longer than ``PATIENCE_S`` is ended. ``worker``: the pid of the
        Celery worker. No other job may be given the device meanwhile: what is found would be its."""
        if self._since is None:
            return ""
        left = _tasks_of(worker) if worker is not None else []
        if not left:
            self._since = None
            return ""
        if (now := time.monotonic()) - self._since > PATIENCE_S:
            self._since = now - PATIENCE_S + AGAIN_S
            for process in left:
                with contextlib.suppress(psutil.Error):
                    log.warning(
                        "ending a process of a job whose lease has ended pid=%s name=%s",
                        process.pid,
                        process.name(),
                    )
                    process.kill()
        return f"{len(left)} process(es) of the job that it had before have not ended"


def members(leader: int) -> list[psutil.Process]:
    """A process's descendants, and what is left of its session."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        found += psutil.Process(leader).children(recursive=True)
    return found + of_session(leader)


def _tasks_of(worker: int) -> list[psutil.Process]:
    """What runs of tasks of a Celery worker: it and its own children, which wait for tasks, are none."""
    found = []
    for process in {p.pid: p for p in members(worker)}.values():
        with contextlib.suppress(psutil.Error):
            idle = worker in (process.pid, process.ppid())
            if not idle and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
