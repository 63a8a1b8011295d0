"""What Kineto tells of a GPU: calls of CUDA's runtime and driver, and the kernels, copies and sets they asked for.

A call returns before its work on the GPU begins, so work lies beside the operator that asked for it and not within it:
its time is added up for the layer (``gpu_ns``), and the layer's own span is the time in which the CPU asked for it. An
operator that made no call ran on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from inferbench_tasks.servers.sources.gpu_work import (
    ALONE_NS,
    GPU_NS,
    HARDWARE,
    Work,
    alone_of,
    clock_error,
    no_driver,
    times_of,
)
from inferbench_tasks.servers.sources.torch_primitives import Node, holder_of

#: Kineto's categories of calls, and of what the GPU does -> its type here.
_CALLS = frozenset(("cuda_runtime", "cuda_driver"))
_WORK = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}
#: What is kept of Kineto's words on the work, by our names.
_KNOWN = {"stream": "stream", "grid": "grid", "block": "block", "bytes": "moved_bytes"}
#: Calls that return once the GPU has done all that was asked before; the second one of its own stream alone.
_WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize")


@dataclass(frozen=True)
class OnGpu:
    """``told``: whether the profile has any work of the GPU that an operator of the thread asked for. ``outside_ns``:
    how long each took that no operator of the thread asked for. ``clock_error_ns``: see ``clock_error``."""

    told: bool
    outside_ns: list[int]
    clock_error_ns: int | None


def unavailable() -> str | None:
    """Why it can't tell of a GPU here, and what helps; None if nothing is known to be against it."""
    reasons = []
    try:
        if (installed := version("torch")).endswith("+cpu"):
            reasons.append(
                f"PyTorch {installed} is built for CPUs; install a build for CUDA (https://pytorch.org/get-started)"
            )
    except PackageNotFoundError:
        reasons.append("the package torch is not installed")
    return "; ".join(filter(None, (no_driver(), *reasons))) or None


def require() -> None:
    """RuntimeError where this PyTorch has no tracer of GPUs: it would record the CPU's side alone."""
    from torch.profiler import ProfilerActivity, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        raise RuntimeError(
            "this PyTorch's profiler can't tell of a GPU: it was built without CUPTI, or sees no GPU; "
            "install a build for CUDA (https://pytorch.org/get-started)"
        )


def put(events: Sequence[dict[str, Any]], thread: int, base_ns: int, roots: Sequence[Node]) -> OnGpu:
    """Put the calls of a thread into the operators that made them, each with the work that it asked for inside, and
    ``gpu_ns`` into the attributes of each of the outermost operators, ``roots``, that made any; ``alone_ns`` into those
    of the others.

    ``events``: Kineto's, of one run (us from ``base_ns`` on, Unix time). A call and its work have one ``correlation``.
    """
    calls = [each for each in events if _is(each, _CALLS) and each["tid"] == thread]
    calls.sort(key=lambda each: float(each["ts"]))
    placed = dict(_placed(calls, base_ns, roots))
    asking = {number for number, _ in placed.values()}
    asked = {each["args"]["correlation"]: _moments(each, base_ns)[0] for each in calls}
    works = []
    for event in sorted((each for each in events if _is(each, _WORK)), key=lambda each: float(each["ts"])):
        start_ns, end_ns = _moments(event, base_ns)
        correlation = event["args"].get("correlation")
        layer, call = placed.get(correlation, (None, None))
        works.append(Work(start_ns, end_ns, asked.get(correlation), layer))
        if call is not None:
            call["inside"].append(_node(event, start_ns, end_ns))
    gpu_ns = times_of(works, len(roots))
    alone_ns = alone_of([(root["start_ns"], root["end_ns"]) for root in roots], works)
    for number, root in enumerate(roots):
        root["attributes"] |= {GPU_NS: gpu_ns[number]} if number in asking else {ALONE_NS: alone_ns[number]}
    outside_ns = [each.end_ns - each.start_ns for each in works if each.layer is None]
    streams = {each["args"].get("stream") for each in events if _is(each, _WORK)}
    waits = [_moments(each, base_ns) for each in calls if each["name"] in _WAITS[: 1 + (len(streams) == 1)]]
    return OnGpu(any(each.layer is not None for each in works), outside_ns, clock_error(works, waits))


def _placed(
    calls: Sequence[dict[str, Any]], base_ns: int, roots: Sequence[Node]
) -> Iterator[tuple[Any, tuple[int, Node]]]:
    """The calls in operators, by correlation: which of ``roots`` each is in, and its node, which is put there."""
    numbers = {id(root): number for number, root in enumerate(roots)}
    for call in calls:
        start_ns, end_ns = _moments(call, base_ns)
        around = holder_of((start_ns + end_ns) // 2, roots)
        if not around:
            continue
        node = {
            "name": call["name"],
            "type": "call",
            "start_ns": start_ns,
            "end_ns": end_ns,
            "attributes": {"library": "CUDA"},
            "inside": [],
        }
        around[-1]["inside"].append(node)
        yield call["args"]["correlation"], (numbers[id(around[0])], node)


def _node(event: dict[str, Any], start_ns: int, end_ns: int) -> Node:
    """Work of the GPU as a span of the level hardware."""
    args = event["args"]
    return {
        "name": event["name"],
        "type": _WORK[event["cat"]],
        "level": HARDWARE,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "attributes": {"library": "CUDA"}
        | {ours: args[name] for name, ours in _KNOWN.items() if name in args},
        "inside": [],
    }


def _is(event: dict[str, Any], categories: Any) -> bool:
    return (
        event.get("ph") == "X" and event.get("cat") in categories and "correlation" in event.get("args", {})
    )


def _moments(event: dict[str, Any], base_ns: int) -> tuple[int, int]:
    start_ns = base_ns + round(event["ts"] * 1000)
    return start_ns, start_ns + round(event["dur"] * 1000)
