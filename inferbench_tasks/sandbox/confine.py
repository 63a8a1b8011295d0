"""Entering the sandbox, in a process's first thread or for a program that a process starts."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from typing import TypeVar

from inferbench_tasks.sandbox import landlock, privileges, seccomp
from inferbench_tasks.sandbox.reach import Reach

T = TypeVar("T")


def enter(reach: Reach) -> None:
    """Hold this thread, and what it starts, to the reach, for good; for a whole process before any thread starts.

    OSError where the kernel refuses what it offers.
    """
    privileges.drop()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _confine(reach)


def started(reach: Reach, start: Callable[[], T]) -> T:
    """What ``start`` returns; the program that it starts, and only that, is in the sandbox.

    What Linux takes from a thread, a program started by it lacks too. So a thread gives all up, starts the program, and
    ends: this process keeps what it has, and no interpreter has to be started in between. Whatever ``start`` raises is
    raised.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            privileges.drop()
            _confine(reach)
            results.append(start())
        except BaseException as error:  # noqa: BLE001 - it is raised again, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=work, name="sandbox")
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
