"""What ONNX Runtime's profile tells of a GPU: kernels of its CUDA provider, where it was built to tell of them.

Only a build with ``--enable_cuda_profiling`` has events of the category ``Kernel`` (its own
``transformers/profile_result_processor.py`` reads them: name, duration, the operator); ``parent_name`` in these is the
event of the node that asked for it (``core/common/gpu_profiler_common.h``). Neither was seen on a GPU by us: where no
kernel names a node, nothing is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.servers.sources.gpu_work import (
    ALONE_NS,
    GPU_NS,
    HARDWARE,
    Work,
    alone_of,
    no_driver,
    times_of,
)

#: Nodes of this provider ran on the CPU, and their own time is theirs.
_ON_CPU = "CPUExecutionProvider"
#: What is kept of its words on a kernel, by our names.
_KNOWN = ("stream", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def unavailable() -> str | None:
    """Why it can't tell of a GPU here, and what helps. That a build tells of no kernels is known of its runs alone."""
    return "; ".join(filter(None, (no_driver(), missing_package("onnxruntime-gpu")))) or None


def put(
    events: Sequence[dict[str, Any]], layers: Sequence[dict[str, Any]], began_ns: int, *, library: bool
) -> list[int] | None:
    """Give each of ``layers`` (one for each event of a node, in their order) ``gpu_ns``, one on the CPU ``alone_ns``,
    and with ``library`` its kernels inside; how long each kernel took that is of no node. None where no kernel names a
    node: nothing is known.

    Of a node that ran several times a kernel is of the last one that had begun: a run waits for all its kernels. A node
    with nodes in it (Loop, If) has their times, of both kinds, for only the outermost are added up.
    """
    nodes = [event for event in events if event.get("cat") == "Node"]
    begun: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for place, node in enumerate(nodes):
        begun[node["name"]].append((node["ts"], place))
    for each in begun.values():
        each.sort()
    kernels = sorted(
        (event for event in events if event.get("cat") == "Kernel" and event.get("ph", "X") == "X"),
        key=lambda event: float(event["ts"]),
    )
    works = []
    for kernel in kernels:
        of = begun.get(kernel.get("args", {}).get("parent_name", ""), [])
        at = bisect_right(of, (kernel["ts"], len(nodes))) - 1
        start_ns = began_ns + round(kernel["ts"] * 1000)
        works.append(
            Work(start_ns, start_ns + round(kernel["dur"] * 1000), None, of[at][1] if at >= 0 else None)
        )
    if all(work.layer is None for work in works):
        return None
    alone_ns = alone_of([(layer["start_ns"], layer["end_ns"]) for layer in layers], works)
    for layer, times in zip(
        layers, _with_bodies(layers, times_of(works, len(layers)), alone_ns), strict=True
    ):
        layer["attributes"] |= times
        if library:
            layer["inside"] = []
    for kernel, work in zip(kernels, works, strict=True):
        if library and work.layer is not None:
            layers[work.layer]["inside"].append(_span(kernel, work))
    return [work.end_ns - work.start_ns for work in works if work.layer is None]


def _with_bodies(
    layers: Sequence[dict[str, Any]], own_ns: Sequence[int], alone_ns: Sequence[int]
) -> list[dict[str, int]]:
    """``gpu_ns`` and ``alone_ns`` of each with those of the layers within it; all time of a layer on the CPU for which
    the GPU did nothing is its own."""
    whole_ns, bodies_ns = list(own_ns), [0] * len(layers)
    times: list[dict[str, int]] = [{} for _ in layers]
    around: list[int] = []

    def close(at: int) -> None:
        if layers[at]["attributes"]["provider"] == _ON_CPU and not whole_ns[at]:
            bodies_ns[at] = alone_ns[at]
            times[at] = {ALONE_NS: alone_ns[at]}
        else:
            times[at] = {GPU_NS: whole_ns[at]} | ({ALONE_NS: bodies_ns[at]} if bodies_ns[at] else {})
        if around:
            whole_ns[around[-1]] += whole_ns[at]
            bodies_ns[around[-1]] += bodies_ns[at]

    for at in sorted(range(len(layers)), key=lambda at: (layers[at]["start_ns"], -layers[at]["end_ns"])):
        while around and not _holds(layers[around[-1]], layers[at]):
            close(around.pop())
        around.append(at)
    while around:
        close(around.pop())
    return times


def _holds(around: dict[str, Any], layer: dict[str, Any]) -> bool:
    """Whether a layer that began no earlier lies in another one; one of 0 us at its end is its neighbour."""
    return bool(layer["start_ns"] < around["end_ns"] >= layer["end_ns"])


def _span(kernel: dict[str, Any], work: Work) -> dict[str, Any]:
    args = kernel["args"]
    return {
        "name": kernel["name"],
        "type": "kernel",
        "level": HARDWARE,
        "start_ns": work.start_ns,
        "end_ns": work.end_ns,
        "attributes": {"library": "CUDA", **{name: int(args[name]) for name in _KNOWN if name in args}},
        "inside": [],
    }
