"""What tells of the levels above the layers, and what could tell of requests and is not built: for `trace sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Why packages of AOTInductor have no layers, and what helps.
COMPILED = (
    "Code that AOTInductor compiled tells PyTorch's profiler of its kernels only if it was compiled to "
    "(TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE=1), and that is other code than what is served and timed; "
    "convert.format: pt2 runs the same exported program by PyTorch, and tells of its layers"
)
_NVIDIA = Path("/proc/driver/nvidia/version")


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
    """A source that is not there. ``why``; ``lacks``: what this machine lacks besides, None if nothing is known to."""

    source: str
    level: str
    of: str
    tells: str
    lacks: Callable[[], str | None] = lambda: None
    why: str = "InferBench does not read it yet"

    def as_row(self) -> dict[str, Any]:
        """A line of the list."""
        lacks = self.lacks()
        why = self.why + (f"; {lacks}" if lacks else "")
        about = {"source": self.source, "level": self.level, "of": self.of, "here": False}
        return {**about, "tells": self.tells, "why_not": why}


def _no_gpu() -> str | None:
    return None if _NVIDIA.is_file() else f"this machine has no NVIDIA driver ({_NVIDIA} is missing)"


ABSENT = (
    Absent(
        "aotinductor",
        "layer",
        "aotinductor",
        "kernels of code that was compiled to tell of them",
        why=COMPILED,
    ),
    Absent("kineto_cupti", "hardware", "GPUs", "kernels, copies", _no_gpu),
    Absent("nvml", "hardware", "GPUs", "memory, power over a trace", _no_gpu),
)
