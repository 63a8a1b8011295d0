"""What a GPU did in a run, as sources tell it: kernels, copies and sets of memory, beside the CPU that asked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

#: The level of such a span. It has no instrument of its own: what tells of calls and layers tells of it.
HARDWARE: Literal["hardware"] = "hardware"
#: The attribute of a layer that ran on a GPU: ns in which the GPU did what the layer asked for.
GPU_NS = "gpu_ns"
#: The attribute of a layer that ran on the CPU in a run on a GPU, or has such layers in it: ns in which the CPU worked
#: for it and the GPU for no layer. With this the layers of a run are no longer than it, though both work side by side.
ALONE_NS = "alone_ns"
#: Why a run on a GPU is lost of which the CPU's side was told.
SILENT_GPU = (
    "the runtime's profile has no kernel, copy or set of the GPU, and how long layers took to be asked for is not how "
    "long they took"
)
_DRIVER = Path("/proc/driver/nvidia/version")


class Work(NamedTuple):
    """A kernel, a copy or a set of memory, Unix time. ``asked_ns``: when the call that asked for it began; None of one
    whose call is not told. ``layer``: the place of the layer that it is of, None of none."""

    start_ns: int
    end_ns: int
    asked_ns: int | None
    layer: int | None


def times_of(works: Sequence[Work], layers: int) -> list[int]:
    """ns that the GPU worked for each of so many layers; what runs side by side counts once, for whichever began first,
    so that all together are no longer than the GPU worked. ``works``: by their beginnings."""
    own_ns, until_ns = [0] * layers, 0
    for each in works:
        if each.layer is not None:
            own_ns[each.layer] += max(0, each.end_ns - max(each.start_ns, until_ns))
        until_ns = max(until_ns, each.end_ns)
    return own_ns


def alone_of(moments: Sequence[tuple[int, int]], works: Sequence[Work]) -> list[int]:
    """ns of each span of time, told by its two moments, in which the GPU worked for no layer. ``works``: by their
    beginnings."""
    starts: list[int] = []
    ends: list[int] = []
    before_ns = [0]
    for each in works:
        if each.layer is None:
            continue
        if not ends or each.start_ns > ends[-1]:
            before_ns.append(before_ns[-1] + (ends[-1] - starts[-1] if ends else 0))
            starts.append(each.start_ns)
            ends.append(each.end_ns)
        ends[-1] = max(ends[-1], each.end_ns)

    def busy_until(moment_ns: int) -> int:
        at = bisect_right(starts, moment_ns) - 1
        return 0 if at < 0 else before_ns[at + 1] + min(moment_ns, ends[at]) - starts[at]

    return [end - start - (busy_until(end) - busy_until(start)) for start, end in moments]


def clock_error(works: Sequence[Work], waits: Sequence[tuple[int, int]]) -> int | None:
    """How far the GPU's moments may be from the CPU's clock at most, ns; None where nothing bounds it.

    No work begins before the call that asked for it, and none ends after a call that waited for it: by how much all of
    it could be moved until some did is what its moments may be off by. ``waits``: beginning and end of such calls.
    """
    asked = [(each, each.asked_ns) for each in works if each.asked_ns is not None]
    early = [each.start_ns - asked_ns for each, asked_ns in asked]
    late = [
        min(ends) - each.end_ns
        for each, asked_ns in asked
        if (ends := [end for begin, end in waits if begin > asked_ns])
    ]
    return max(abs(min(early)), abs(min(late))) if early and late else None


def in_no_layer(primitives_ns: Sequence[int], works_ns: Sequence[int]) -> dict[str, int] | None:
    """What a source has as ``outside``: how many primitives of a CPU's library are in no layer, and what a GPU did for
    none (``on_gpu``, only where there is any); None without both. Of each the ns that it took."""
    if not primitives_ns and not works_ns:
        return None
    on_gpu = {"on_gpu": len(works_ns), "on_gpu_ns": sum(works_ns)} if works_ns else {}
    return {"primitives": len(primitives_ns), "ns": sum(primitives_ns), **on_gpu}


def no_driver() -> str | None:
    """That this machine has no NVIDIA GPU to trace; None if it has its driver."""
    if _DRIVER.is_file():
        return None
    return f"this machine has no NVIDIA driver ({_DRIVER} is missing): it takes a worker with a GPU"
