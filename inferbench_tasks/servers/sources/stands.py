"""What the kernel's figures of a thread or a process stood at, at two moments, and what came to them in between."""

from __future__ import annotations

import resource
from typing import NamedTuple

from inferbench_tasks.servers.sources.base import Used

_NAMES = (
    "cpu_ns", "wait_for_core_ns", "switches_voluntary", "switches_involuntary", "faults_minor", "faults_major",
)  # fmt: skip


class Stand(NamedTuple):
    """``waited_ns``: for a core, of all threads that are meant together; None where nobody tells."""

    usage: resource.struct_rusage
    waited_ns: int | None
    cpu_ns: int


def names_of(prefix: str = "") -> tuple[str, ...]:
    """Of what ``used`` tells, in its order."""
    return tuple(prefix + name for name in _NAMES)


def used(names: tuple[str, ...], before: Stand, now: Stand) -> Used:
    """The differences, by these ``names``; no waits where one of both does not tell them."""
    waited_ns = None
    if before.waited_ns is not None and now.waited_ns is not None:
        waited_ns = now.waited_ns - before.waited_ns
    one, other = before.usage, now.usage
    figures = (
        now.cpu_ns - before.cpu_ns,
        waited_ns,
        other.ru_nvcsw - one.ru_nvcsw,
        other.ru_nivcsw - one.ru_nivcsw,
        other.ru_minflt - one.ru_minflt,
        other.ru_majflt - one.ru_majflt,
    )
    return dict(zip(names, figures, strict=True))
