"""What tells of the levels above the layers, and what could tell of requests and is not built: for `trace sources`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.monitors.base import Target
from inferbench_tasks.servers.sources.gpu_work import no_driver

#: Why packages of AOTInductor have no layers, and what helps.
COMPILED = (
    "Code that AOTInductor compiled tells PyTorch's profiler of its kernels only if it was compiled to "
    "(TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE=1), and that is other code than what is served and timed; "
    "convert.format: pt2 runs the same exported program by PyTorch, and tells of its layers"
)


def sources_of_ours() -> Iterator[dict[str, Any]]:
    """The client, and the servers themselves: they need nothing that could be missing where they run."""
    for source, level, of, tells in (
        ("client", "application", "every backend", "intended, sent, first byte, done"),
        ("server", "model", "our server", "read, decode, queue, join, inference, split, resume, encode"),
        ("server", "framework", "our server", "each run"),
        (
            "triton",
            "model",
            "triton",
            "its own spans of a request, down to its compute, as it sends them over OTLP",
        ),
        (
            "monitors",
            "hardware",
            "every backend",
            "CPU, memory and threads of the server, CPU and memory of the host, power where it is told: ten times a "
            "second, counter tracks beside the spans",
        ),
        ("mlserver", "model", "mlserver", "its own span of a call over gRPC, as it sends it over OTLP"),
    ):
        yield {"source": source, "level": level, "of": of, "here": True, "tells": tells, "why_not": ""}


@dataclass(frozen=True)
class Absent:
    """A source that is not there, and ``why``."""

    source: str
    level: str
    of: str
    tells: str
    why: str

    def as_row(self) -> dict[str, Any]:
        """A line of the list."""
        about = {"source": self.source, "level": self.level, "of": self.of, "here": False}
        return {**about, "tells": self.tells, "why_not": self.why}


def of_nvml() -> dict[str, Any]:
    """The GPU's monitor: what the board did while a model on it was traced."""
    from inferbench_tasks.monitors.gpu import GpuMonitor

    if why := GpuMonitor.unavailable(Target(pid=os.getpid(), started_ns=0, device="gpu")):
        why = "; ".join(filter(None, (why, no_driver())))
    return {
        "source": "nvml",
        "level": "hardware",
        "of": "every backend on a GPU",
        "here": why is None,
        "tells": "use, memory, power and clock of the GPU, all its users together: ten times a second, counter tracks "
        "beside the spans",
        "why_not": why or "",
    }


ABSENT = (
    Absent(
        "aotinductor",
        "layer",
        "aotinductor",
        "kernels of code that was compiled to tell of them",
        why=COMPILED,
    ),
)
