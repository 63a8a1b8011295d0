"""Entering the sandbox, in a process's first thread or for a program that a process starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from inferbench_tasks.sandbox import account, landlock, privileges, seccomp
from inferbench_tasks.sandbox.reach import Reach
from inferbench_tasks.sandbox.rlimits import Bounds

T = TypeVar("T")


def enter(reach: Reach, uid: int | None = None, bounds: Bounds | None = None) -> None:
    """Hold this thread, and what it starts, to the reach, for good; for a whole process before any thread starts.

    ``uid``: the user that it becomes. OSError where the kernel refuses what it offers.
    """
    (bounds or Bounds.of(uid)).apply()
    privileges.drop(uid)
    _confine(reach)


def started(
    reach: Reach | None,
    start: Callable[[], T],
    uid: int | None = None,
    first: Callable[[], None] = lambda: None,
) -> T:
    """What ``start`` returns; the program that it starts, and only that, is in the sandbox.

    What Linux takes from a thread, a program started by it lacks too. So a thread gives all up, starts the program, and
    ends: this process keeps what it has, and no interpreter has to be started in between. Whatever ``start`` raises is
    raised. ``uid``: the user that it is started as. ``first``: what the thread does while it still may. ``reach`` None:
    it gives nothing up.
    """

    def work() -> T:
        first()
        if reach is not None:
            privileges.drop(uid)
            _confine(reach)
        return start()

    return _in_a_thread(work)


def bounded(pid: int, uid: int | None, bounds: Bounds) -> None:
    """Hold a program that was started to bounds of the kernel: the process's, so that no thread could give them up.

    Whoever is that user may do so without further rights. A program that has ended is none.
    """

    def work() -> None:
        if uid is not None:
            account.become(uid)
        bounds.apply(pid)

    _in_a_thread(work)


def _in_a_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="sandbox")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _confine(reach: Reach) -> None:
    landlock.restrict(reach)
    seccomp.restrict(
        local_sockets=reach.local_sockets, datagrams=reach.datagrams, interfaces=reach.interfaces
    )
