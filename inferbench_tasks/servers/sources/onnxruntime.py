"""ONNX Runtime's own profile of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import orjson

from inferbench_tasks.monitors import perf_samples
from inferbench_tasks.servers.sources import onnxruntime_gpu
from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.servers.sources.gpu_work import SILENT_GPU, in_no_layer
from inferbench_tasks.servers.sources.sampled_objects import SampledObjects
from inferbench_tasks.timing.epoch import epoch_offset


class OnnxRuntimeProfile:
    """Each node that ran. The profile counts microseconds from a start that it tells in Unix time.

    It ends silently at a million events: runs without an event of their own are counted in ``lost``. ``library``: in
    which shared objects the nodes ran, too, by samples of the process. ``gpu``: the session runs on one; each node has
    its kernels' time, with ``library`` these themselves, and where the profile has none all runs are lost: a node's own
    time is that of asking for them.
    """

    title: ClassVar[str] = "ONNX Runtime's profile"
    engines: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    tells: ClassVar[str] = "each node of each run: start, duration (1 us), operator, output shapes and bytes"
    primitives: ClassVar[str] = (
        "the shared objects that a node ran in, by samples over all traced runs: the package has no symbols, and "
        "nearly all of its kernels are in one object; no names of kernels, no FLOPs, no bytes"
    )
    on_gpu: ClassVar[str] = (
        "kernels of the CUDA provider: start, duration (1 us), stream, grid; only of a build with "
        "--enable_cuda_profiling, of others nothing on a GPU is told below the level framework. Never run on a GPU yet"
    )

    def __init__(self, path: str, options: Any, *, library: bool = False, gpu: bool = False) -> None:
        options.enable_profiling = True
        options.profile_file_prefix = f"{path}.onnxruntime"
        self.lost = 0
        self._library, self._gpu = library, gpu
        self._samples = SampledObjects() if library and not gpu else None
        #: Of the runs whose objects were sampled, see ``SampledObjects``; None where none were.
        self.sampling: dict[str, int] | None = None
        #: Of a GPU what kind the lost runs are of, and its kernels of no node, see ``in_no_layer``; None of none.
        self.why_lost = ""
        self.outside: dict[str, int] | None = None
        self._starts_ns: list[int] = []
        #: Set by the engine once there is one.
        self.session: Any = None

    @classmethod
    def unavailable(cls) -> str | None:
        """It comes with the runtime."""
        return missing_package("onnxruntime")

    @classmethod
    def unavailable_on(cls, device: str) -> str | None:
        """Of a GPU the package for one, if it was built to."""
        return onnxruntime_gpu.unavailable() if device == "gpu" else None

    @classmethod
    def primitives_unavailable(cls) -> str | None:
        """Its nodes' shared objects are told by samples of the process, if the kernel takes them."""
        return perf_samples.unavailable()

    def start(self) -> None:
        """The session profiles by itself."""
        if self._samples is not None:
            self._samples.start()

    def stop(self, start_ns: int, end_ns: int) -> None:
        """That there was a run, so that one which the profile does not tell of is known."""
        if self._samples is not None:
            self._samples.stop(start_ns)
        self._starts_ns.append(start_ns)

    def raised(self) -> None:
        """Of the run that was stopped last the profile need not tell."""
        self._starts_ns.pop()
        if self._samples is not None:
            self._samples.raised()

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """Read the profile, which ends the session's."""
        began_ns = int(self.session.get_profiling_start_time_ns())
        path = Path(self.session.end_profiling())
        events = orjson.loads(path.read_bytes())
        path.unlink()
        since_us, until_us = (
            (at + epoch_offset()["offset_ns"] - began_ns) / 1e3 for at in (since_ns, until_ns)
        )
        events = [event for event in events if event.get("ts", 0) >= since_us]
        asked = [start for start in self._starts_ns if start >= since_ns]
        if (
            self._gpu
        ):  # what a GPU did for no node is of no request, so nobody else leaves out that of later runs
            events = [event for event in events if event.get("ts", 0) <= until_us]
            asked = [start for start in asked if start <= until_ns]
        told = sum(event["name"] == "model_run" for event in events)
        layers = [_layer(event, began_ns) for event in events if event.get("cat") == "Node"]
        if self._gpu:
            outside_ns = onnxruntime_gpu.put(events, layers, began_ns, library=self._library)
            if outside_ns is None:
                told, layers, self.why_lost = 0, [], SILENT_GPU
            else:
                self.outside = in_no_layer((), outside_ns)
        self.lost = max(0, len(asked) - told)
        if self._samples is not None:
            self._samples.into(layers, since_ns, until_ns)
            self.sampling = self._samples.sampling
        return layers


def _layer(event: dict[str, Any], began_ns: int) -> dict[str, Any]:
    args = event["args"]
    start_ns = began_ns + round(event["ts"] * 1000)
    return {
        "name": event["name"].removesuffix("_kernel_time"),
        "type": args.get("op_name", ""),
        "start_ns": start_ns,
        "end_ns": start_ns + round(event["dur"] * 1000),
        "attributes": {
            "node_index": int(args["node_index"]) if "node_index" in args else None,
            "provider": args.get("provider"),
            "output_bytes": int(args["output_size"]) if "output_size" in args else None,
            # Not its parameter_size: weights that the session packed for its kernels are not in it, which are most.
            "output_shapes": [
                list(shape) for of in args.get("output_type_shape", []) for shape in of.values()
            ],
        },
    }
