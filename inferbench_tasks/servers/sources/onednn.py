"""oneDNN's verbose mode: each primitive that ran, which the library prints to the process's standard output."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.servers.sources.onednn_work import work_of

log = logging.getLogger(__name__)
_MARK = b"onednn_verbose,"
#: Its lines have so many parts: mark, version, moment, "primitive", "exec", engine, kind, implementation, direction,
#: memory, attributes, algorithm, problem, duration; with the moment since oneDNN 3.0.
_PARTS = 14

#: How far off a duration may be: both its ends are whole us.
ERROR_US = 1.0


@dataclass(frozen=True)
class Primitive:
    """``name``: the implementation.

    Unix time; oneDNN reads a clock of whole us, so durations are off by up to ``ERROR_US``. (That its moments, ms as a
    64-bit float, stand in steps of 244 ns is rounding alone.)
    """

    name: str
    type: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]


def with_moments() -> None:
    """Lines have moments; read once by each copy of the library in the process."""
    os.environ["ONEDNN_VERBOSE_TIMESTAMP"] = "1"


class StandardOutput:
    """What is printed between ``start`` and ``stop``: oneDNN's lines are kept, all others printed again afterwards.

    It is the process's file descriptor, for a library in C++ knows no other; so one run at a time has it.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._kept = -1
        self._memory = -1

    def start(self) -> None:
        """From now on; what a run that failed left open is ended first."""
        if self._kept >= 0:
            self.stop()
        self._libc.fflush(None)
        self._memory = os.memfd_create("onednn")
        self._kept = os.dup(1)
        os.dup2(self._memory, 1)

    def stop(self) -> list[str]:
        """oneDNN's lines so far."""
        self._libc.fflush(None)
        os.dup2(self._kept, 1)
        os.close(self._kept)
        self._kept = -1
        with os.fdopen(self._memory, "rb") as file:
            file.seek(0)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if not line.startswith(_MARK):
                os.write(1, line)
        return [line.decode(errors="replace").rstrip("\n") for line in lines if line.startswith(_MARK)]


def primitives_of(lines: Sequence[str]) -> list[Primitive]:
    """The primitives that ran, in the order of the lines; what was created only, and what is no primitive, is none."""
    found = []
    for line in lines:
        parts = line.split(",")
        if len(parts) != _PARTS or parts[3:5] != ["primitive", "exec"]:
            continue
        kind, implementation, direction, memory, attributes, _, problem = parts[6:13]
        try:
            start_ns = round(float(parts[2]) * 1e6)
            end_ns = start_ns + round(float(parts[13]) * 1e6)
        except (ValueError, OverflowError):  # two threads' lines in one: no time, no primitive
            log.warning("oneDNN's line is not understood: %.200s", line)
            continue
        work = work_of(kind, direction, memory, attributes, problem)
        about = {
            "library": "oneDNN",
            "problem": problem,
            "flops": work.flops,
            "bytes": work.bytes,
            "data_type": work.data_type,
            "error_us": ERROR_US,
        }
        found.append(Primitive(implementation, kind, start_ns, end_ns, about))
    return found
