"""What the whole server process used: its runtime's other threads are in it, and so is all else that it does then."""

from __future__ import annotations

import resource
import time
from typing import ClassVar, NamedTuple

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.servers.sources.base import Used


class Stand(NamedTuple):
    """What the figures of a process stand at. ``waited_ns``: of all threads together; None where nobody tells."""

    usage: resource.struct_rusage
    waited_ns: int | None
    cpu_ns: int


class ProcessUse:
    """Requests are asked one by one where this is on, so what the process used meanwhile is the request's."""

    title: ClassVar[str] = "the kernel's figures of the process"
    tells: ClassVar[str] = (
        "the same of all threads of the server together: attributes of each run, and of the request in the server "
        "(process_cpu_ns, process_wait_for_core_ns, process_switches_*, process_faults_*)"
    )

    def __init__(self) -> None:
        self._waits = ThreadWaits()
        self._begun: Stand | None = None

    @classmethod
    def unavailable(cls) -> str | None:
        """Every Linux tells."""
        return None

    def start(self) -> None:
        """Remember what they stand at."""
        self._begun = self.stand()

    def stop(self) -> Used:
        """What came to them since."""
        assert self._begun is not None
        return self.since(self._begun)

    def stand(self) -> Stand:
        """What they stand at now; the CPU time last, so that asking is not in it. Threads that began are watched."""
        self._waits.find()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Stand(usage, self._waits.read_ns(), time.process_time_ns())

    def since(self, begun: Stand) -> Used:
        """What came to them since then; of a thread that began meanwhile its waits are not known."""
        cpu_ns = time.process_time_ns()
        now, before = resource.getrusage(resource.RUSAGE_SELF), begun.usage
        waited_ns = self._waits.read_ns()
        known = waited_ns is not None and begun.waited_ns is not None
        return {
            "process_cpu_ns": cpu_ns - begun.cpu_ns,
            "process_wait_for_core_ns": (waited_ns or 0) - (begun.waited_ns or 0) if known else None,
            "process_switches_voluntary": now.ru_nvcsw - before.ru_nvcsw,
            "process_switches_involuntary": now.ru_nivcsw - before.ru_nivcsw,
            "process_faults_minor": now.ru_minflt - before.ru_minflt,
            "process_faults_major": now.ru_majflt - before.ru_majflt,
        }
