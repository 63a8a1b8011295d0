"""TensorFlow's own profiler: the kernels that a signature's call ran."""

from __future__ import annotations

import re
import time
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar

from inferbench_tasks.protocols.xplane_proto import message
from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.timing.epoch import epoch_offset

#: What our own event in a profile is called: it begins at a moment that is read in Unix time, too.
MARK = "inferbench_run"
_HOST = "/host:CPU"
#: An operator's kernel, as TensorFlow's executor calls it: ``model/conv/Conv2D:Conv2D``.
_KERNEL = re.compile(r"(?P<name>[^:\s]+):(?P<type>[A-Za-z_][A-Za-z0-9_]*)")
#: Calls of other functions, whose own kernels are told.
_CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))


class TensorFlowProfiler:
    """A profile of its own for each run, of those kernels that TensorFlow does not call inexpensive.

    A profile counts from its beginning; how far that is from Unix time its ``MARK`` tells.
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
        self._mark: Any = None
        self._began_ns = 0

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
        before_ns = time.time_ns()
        self._mark = profiler.experimental.Trace(MARK)  # its clock starts here
        self._began_ns = (before_ns + time.time_ns()) // 2

    def stop(self, start_ns: int, end_ns: int) -> None:
        """End it, and keep what it tells; a run of which it tells nothing is lost."""
        from tensorflow import profiler

        self._mark.__exit__(None, None, None)
        profiler.experimental.stop()
        layers: list[dict[str, Any]] = []
        for path in self._folder.rglob("*.xplane.pb"):
            layers += layers_of(message("XSpace").FromString(path.read_bytes()), self._began_ns)
        rmtree(self._folder)
        self.lost += not layers
        self._layers += layers

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """The kernels of the runs since then."""
        since_ns += epoch_offset()["offset_ns"]
        return [layer for layer in self._layers if layer["start_ns"] >= since_ns]


def layers_of(space: Any, began_ns: int) -> list[dict[str, Any]]:
    """The kernels of a profile (``XSpace``), of all of the host's threads, by their beginnings; ``began_ns``: when its
    ``MARK`` did, Unix time. None where that is not in it: nothing would say when they ran.

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
    marks = [start_ps for name, start_ps, _ in events if name == MARK]
    if not marks:
        return []
    offset_ps = began_ns * 1000 - marks[0]
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
