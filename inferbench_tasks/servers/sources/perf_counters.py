"""The processor's counters, where the machine shows them: cycles, instructions, cache misses of each run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from inferbench_tasks.monitors import perf_events
from inferbench_tasks.servers.sources.base import Used


class PerfCounters:
    """Of the server, all its threads and what it started, in user mode. Whoever started it opened them.

    The counters are on all the time; a run's are the difference of two readings.
    """

    title: ClassVar[str] = "the processor's counters"
    tells: ClassVar[str] = (
        "cycles, instructions and misses of the last cache in user mode, of the server and all that it starts: "
        "attributes of each run (process_cycles ...), scaled where the processor counted a share of the time "
        "(counted_ratio)"
    )

    def __init__(self, descriptors: Mapping[str, int] | None = None) -> None:
        given = perf_events.passed_on(os.environ) if descriptors is None else descriptors
        self._descriptors = dict(given)
        self._begun: dict[str, perf_events.Count] = {}

    @classmethod
    def unavailable(cls) -> str | None:
        """Whether a process that is started from here could be counted."""
        return perf_events.unavailable()

    def start(self) -> None:
        """Read them."""
        self._begun = self._read()

    def stop(self) -> Used:
        """What came to them since; nothing where nobody opened any."""
        now = self._read()
        used: Used = {}
        share = 1.0
        for name, count in now.items():
            value, of = perf_events.counted(self._begun[name], count)
            used[f"process_{name}"] = None if value is None else round(value)
            share = min(share, of)
        if share < 1.0:
            used["counted_ratio"] = round(share, 4)
        return used

    def _read(self) -> dict[str, perf_events.Count]:
        try:
            return {name: perf_events.read(at) for name, at in self._descriptors.items()}
        except OSError:  # they are no longer counted: what is not known is not told
            self._descriptors = {}
            return {}
