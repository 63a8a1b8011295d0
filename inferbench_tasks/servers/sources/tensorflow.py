"""TensorFlow's own profiler: the kernels that a signature's call ran."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar

from inferbench_tasks.protocols.xplane_proto import message
from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.timing.epoch import epoch_offset

#: What our own events in a profile are called: each begins between two readings of Unix time. Of several the one with
#: the nearest readings tells the clock: a thread that is kept from its core between them is milliseconds off.
MARK, MARKS = "inferbench_run_{}", 5
#: Unix time, ns, before and after the beginning of each mark.
Brackets = Sequence[tuple[int, int]]
_HOST = "/host:CPU"
#: An operator's kernel, as TensorFlow's executor calls it: ``model/conv/Conv2D:Conv2D``.
_KERNEL = re.compile(r"(?P<name>[^:\s]+):(?P<type>[A-Za-z_][A-Za-z0-9_]*)")
#: Calls of other functions, whose own kernels are told.
_CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))


class TensorFlowProfiler:
    """A profile of its own for each run, of those kernels that TensorFlow does not call inexpensive.

    A profile counts from its beginning; how far that is from Unix time its marks tell.
    """

    title: ClassVar[str] = "TensorFlow's profiler"
    engines: ClassVar[tuple[str, ...]] = ("savedmodel",)
    tells: ClassVar[str] = (
        "each operator of each run after TensorFlow's own fusion: start, duration (1 ns); not of those that it calls "
        "inexpensive (constants, changes of shape), no shapes, no bytes"
    )

    def __init__(self, path: str) -> None:
        self._folder = Path(f"{path}.tensorflow")
        self.lost = 0
        self._layers: list[dict[str, Any]] = []
        #: When each run began, CLOCK_MONOTONIC, and whether its profile told of it.
        self._runs: list[tuple[int, bool]] = []
        self._brackets: list[tuple[int, int]] = []

    @classmethod
    def unavailable(cls) -> str | None:
        """It comes with TensorFlow."""
        return missing_package("tensorflow")

    def start(self) -> None:
        """Begin a profile of this process."""
        from tensorflow import profiler

        levels = profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
        )
        profiler.experimental.start(str(self._folder), levels)
        self._brackets = []
        for number in range(MARKS):
            before_ns = time.time_ns()
            mark = profiler.experimental.Trace(MARK.format(number))  # its clock starts here
            self._brackets.append((before_ns, time.time_ns()))
            mark.__exit__(None, None, None)

    def stop(self, start_ns: int, end_ns: int) -> None:
        """End it, and keep what it tells, and whether it tells anything."""
        from tensorflow import profiler

        profiler.experimental.stop()
        layers: list[dict[str, Any]] = []
        for path in self._folder.rglob("*.xplane.pb"):
            layers += layers_of(message("XSpace").FromString(path.read_bytes()), self._brackets)
        rmtree(self._folder)
        self._runs.append((start_ns, bool(layers)))
        self._layers += layers

    def raised(self) -> None:
        """Of the run that was stopped last nothing need be told."""
        self._runs.pop()

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """The kernels of the runs since then; those of the traced requests that have none are lost."""
        self.lost = sum(not told for start_ns, told in self._runs if since_ns <= start_ns <= until_ns)
        since_ns += epoch_offset()["offset_ns"]
        return [layer for layer in self._layers if layer["start_ns"] >= since_ns]


def layers_of(space: Any, brackets: Brackets) -> list[dict[str, Any]]:
    """The kernels of a profile (``XSpace``), of all of the host's threads, by their beginnings; ``brackets``: between
    which moments each mark began. None where no mark is in it: nothing would say when they ran.

    What only calls a function whose kernels are told too is none.
    """
    events = [
        (names.get(event.metadata_id, ""), line.timestamp_ns * 1000 + event.offset_ps, event.duration_ps)
        for plane in space.planes
        if plane.name == _HOST
        for names in [{entry.key: entry.value.name for entry in plane.event_metadata}]
        for line in plane.lines
        for event in line.events
    ]
    began_ps = {name: start_ps for name, start_ps, _ in events}
    offsets = [
        (after_ns - before_ns, (before_ns + after_ns) * 500 - began_ps[name])
        for number, (before_ns, after_ns) in enumerate(brackets)
        if (name := MARK.format(number)) in began_ps
    ]
    if not offsets:
        return []
    _, offset_ps = min(offsets)
    found = [
        (match, start_ps + offset_ps, duration_ps)
        for name, start_ps, duration_ps in events
        if (match := _KERNEL.fullmatch(name))
    ]
    if inner := [each for each in found if each[0]["type"] not in _CALLS]:
        found = inner
    return [
        {
            "name": match["name"],
            "type": match["type"],
            "start_ns": start_ps // 1000,
            "end_ns": (start_ps + duration_ps) // 1000,
            "attributes": {},
        }
        for match, start_ps, duration_ps in sorted(found, key=lambda each: (each[1], -each[2]))
    ]
