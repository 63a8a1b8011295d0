"""What the whole server process used: its runtime's other threads are in it, and so is all else that it does then."""

from __future__ import annotations

import resource
import time
from typing import ClassVar

from inferbench_tasks.monitors.schedstat import ThreadWaits
from inferbench_tasks.servers.sources.base import Used
from inferbench_tasks.servers.sources.stands import Stand, names_of, used

_NAMES = names_of("process_")


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
        now = Stand(resource.getrusage(resource.RUSAGE_SELF), self._waits.read_ns(), cpu_ns)
        return used(_NAMES, begun, now)
