"""What tells of the levels above the layers, and what could tell of requests and is not built: for `trace sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PMU = Path("/sys/bus/event_source/devices/cpu")
_NVIDIA = Path("/proc/driver/nvidia/version")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
#: Up to here users may count what their own processes do.
_MOST_PARANOID = 2
_USED = "CPU time, waits for a core, switches and faults of the thread that asks the runtime"


def sources_of_ours() -> Iterator[dict[str, Any]]:
    """The client, and the server itself: they need nothing that could be missing."""
    for source, level, of, tells in (
        ("client", "application", "every backend", "intended, sent, first byte, done"),
        ("server", "model", "our server", "read, decode, queue, join, inference, split, resume, encode"),
        ("server", "framework", "our server", "each run"),
        ("server", "hardware", "our server", f"{_USED}: attributes of each run, no spans of their own"),
    ):
        yield {"source": source, "level": level, "of": of, "here": True, "tells": tells, "why_not": ""}


@dataclass(frozen=True)
class Absent:
    """A source that nobody built yet. ``lacks``: what this machine lacks besides; None if nothing is known to."""

    source: str
    level: str
    of: str
    tells: str
    lacks: Callable[[], str | None] = lambda: None

    def as_row(self) -> dict[str, Any]:
        """A line of the list."""
        lacks = self.lacks()
        why = "InferBench does not read it yet" + (f"; {lacks}" if lacks else "")
        about = {"source": self.source, "level": self.level, "of": self.of, "here": False}
        return {**about, "tells": self.tells, "why_not": why}


def _no_pmu() -> str | None:
    if not _PMU.is_dir():
        return f"this machine has no PMU ({_PMU} is missing)"
    try:
        closed = int(_PARANOID.read_text()) > _MOST_PARANOID
    except (OSError, ValueError):
        return f"this kernel counts no events ({_PARANOID} is missing)"
    return (
        f"the kernel keeps its counters from users ({_PARANOID} is above {_MOST_PARANOID})"
        if closed
        else None
    )


def _no_gpu() -> str | None:
    return None if _NVIDIA.is_file() else f"this machine has no NVIDIA driver ({_NVIDIA} is missing)"


def _no_symbols() -> str:
    return (
        "the package of ONNX Runtime has no symbols, and all its kernels are in one shared object: samples tell none "
        "of them from the others"
    )


ABSENT = (
    Absent("aotinductor", "layer", "aotinductor", "code compiled with kernel profiling"),
    Absent(
        "tensorflow_profiler", "layer", "savedmodel", "XPlane; TensorFlow Serving's requests are not traced"
    ),
    Absent("triton_trace", "model", "triton", "its own spans, with mode=opentelemetry"),
    Absent("mlserver", "model", "mlserver", "its own spans"),
    Absent("perf_samples", "library", "onnxruntime", "shares of its kernels in the time", _no_symbols),
    Absent("perf", "hardware", "our server", "cycles, instructions, cache misses", _no_pmu),
    Absent("kineto_cupti", "hardware", "GPUs", "kernels, copies", _no_gpu),
    Absent("nvml", "hardware", "GPUs", "memory, power over a trace", _no_gpu),
)
