"""PyTorch's profiler: the operators that a module's call ran, by the modules that asked for them."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import orjson

from inferbench_tasks.servers.sources import kineto_gpu, onednn
from inferbench_tasks.servers.sources.base import missing_package
from inferbench_tasks.servers.sources.gpu_work import ALONE_NS, GPU_NS, SILENT_GPU, in_no_layer
from inferbench_tasks.servers.sources.kineto_gpu import OnGpu
from inferbench_tasks.servers.sources.onednn import Primitive
from inferbench_tasks.servers.sources.torch_primitives import Node, place, trees_of
from inferbench_tasks.servers.sources.torch_program import Operator, Operators, Shapes, nothing_known
from inferbench_tasks.timing.epoch import epoch_offset

#: Why a run on a GPU is lost whose profile tells not even of the CPU's side.
NO_OPERATOR = "the runtime's profile has no operator"
_MODULES = re.compile(r"([^.()]+)\([^()]*\)::")


class _Run(NamedTuple):
    """When it began, CLOCK_MONOTONIC; whether its profile told of it, and why not, where that is known; how long each
    primitive in no operator took, and of a GPU all that it did for none; how far the GPU's moments may be off."""

    start_ns: int
    told: bool
    outside_ns: list[int]
    gpu_outside_ns: list[int]
    gpu_clock_error_ns: int | None = None
    why_lost: str = ""


class TorchProfiler:
    """The outermost operator of each call is a layer; those within it are how PyTorch does it.

    A profile of its own for each run, in the thread that runs it: PyTorch records a thread only that began one.
    ``program``: the operators of an exported program in their order, which name the layers and tell what they give
    where the run has the same ones; for it the engine says the ``shapes`` of each call. TorchScript's modules are told
    by the profile itself, unless the module was frozen, which has none. ``library``: what is inside of each layer too,
    with the sizes of products, and oneDNN's primitives. ``gpu``: the module runs on a GPU, whose work each layer has as
    ``gpu_ns`` (one that ran on the CPU ``alone_ns``), and with ``library`` inside, too; a run of which nothing was told
    of the GPU is lost, for the CPU's side alone is only when work was asked for. RuntimeError where PyTorch can't tell
    of a GPU.
    """

    title: ClassVar[str] = "torch.profiler"
    engines: ClassVar[tuple[str, ...]] = ("torchscript", "pt2")
    tells: ClassVar[str] = (
        "each operator of each run: start, duration, module (not of frozen TorchScript); output shapes and bytes of "
        "exported programs, none of TorchScript; nothing within code of AOTInductor"
    )
    primitives: ClassVar[str] = (
        "operators of ATen within each other, and oneDNN's primitives: start, duration (1 us), implementation, "
        "FLOPs and bytes of its problem; of ATen's products of matrices FLOPs and bytes; on a GPU calls of CUDA's "
        "runtime and driver, none of cuDNN's and cuBLAS's own"
    )
    on_gpu: ClassVar[str] = (
        "kernels, copies and sets of memory on the GPU (Kineto, by CUPTI): start, duration, stream, grid, bytes of "
        "copies, within the calls that asked for them; no FLOPs. Never run on a GPU yet"
    )

    def __init__(
        self, path: str, program: Operators = nothing_known, *, library: bool = False, gpu: bool = False
    ) -> None:
        self._path = Path(f"{path}.torch.json")
        self._program = program
        #: Of the inputs of the call that is run.
        self.shapes: Shapes = ()
        self._library = library
        self._gpu = gpu
        if gpu:
            kineto_gpu.require()
        #: How far the GPU's moments may be from the CPU's clock at most, ns; None where nobody knows. Of what kind the
        #: lost runs are, where that is known. Both are known after ``spans``.
        self.gpu_clock_error_ns: int | None = None
        self.why_lost = ""
        self._output: onednn.StandardOutput | None = None
        if library:
            from torch.backends import mkldnn

            onednn.with_moments()
            self._output = onednn.StandardOutput() if mkldnn.is_available() else None
        self.lost = 0
        #: What oneDNN and a GPU ran in the traced runs in no operator that PyTorch told of, so that it is in no layer,
        #: see ``in_no_layer``; None where there was none of it. Known after ``spans``.
        self.outside: dict[str, int] | None = None
        self._runs: list[_Run] = []
        self._profile: Any = None
        self._verbose: Any = None
        self._layers: list[dict[str, Any]] = []

    @classmethod
    def unavailable(cls) -> str | None:
        """It comes with PyTorch."""
        return missing_package("torch")

    @classmethod
    def unavailable_on(cls, device: str) -> str | None:
        """Of a GPU a build for CUDA tells, by CUPTI."""
        return kineto_gpu.unavailable() if device == "gpu" else None

    def start(self) -> None:
        """Begin a profile in this thread."""
        from torch.backends import mkldnn
        from torch.profiler import ProfilerActivity, profile

        if self._output is not None:
            self._output.start()
            self._verbose = mkldnn.verbose(mkldnn.VERBOSE_ON)
            self._verbose.__enter__()
        self._profile = profile(
            activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._gpu else [])],
            with_modules=True,
            record_shapes=self._library,
        )
        self._profile.__enter__()

    def stop(self, start_ns: int, end_ns: int) -> None:
        """End it, and keep what it tells of this thread."""
        self._profile.__exit__(None, None, None)
        primitives: list[Primitive] | None = [] if self._library else None
        if self._output is not None:
            self._verbose.__exit__(None, None, None)
            primitives = onednn.primitives_of(self._output.stop())
        self._profile.export_chrome_trace(str(self._path))
        document = orjson.loads(self._path.read_bytes())
        self._path.unlink()
        self._profile = None
        outside: list[Primitive] = []
        program = self._program(self.shapes)
        devices: list[OnGpu] | None = [] if self._gpu else None
        layers = layers_of(document, threading.get_native_id(), program, primitives, outside, devices)
        outside_ns = [each.end_ns - each.start_ns for each in outside]
        gpu_outside_ns: list[int] = []
        told, clock_error_ns, why_lost = bool(layers), None, ""
        for device in devices or ():
            why_lost = "" if told and device.told else SILENT_GPU if told else NO_OPERATOR
            told, clock_error_ns = told and device.told, device.clock_error_ns
            gpu_outside_ns += device.outside_ns
        self._runs.append(_Run(start_ns, told, outside_ns, gpu_outside_ns, clock_error_ns, why_lost))
        self._layers += layers if told else []

    def raised(self) -> None:
        """Of the run that was stopped last nothing need be told."""
        self._runs.pop()

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """The layers of the runs since then; those of the traced requests whose profile has no operator are lost."""
        runs = [run for run in self._runs if since_ns <= run.start_ns <= until_ns]
        self.lost = sum(not run.told for run in runs)
        self.why_lost = "; ".join(dict.fromkeys(run.why_lost for run in runs if run.why_lost))
        errors_ns = [run.gpu_clock_error_ns for run in runs if run.gpu_clock_error_ns is not None]
        self.gpu_clock_error_ns = max(errors_ns, default=None)
        self.outside = in_no_layer(
            [length for run in runs for length in run.outside_ns],
            [length for run in runs for length in run.gpu_outside_ns],
        )
        since_ns += epoch_offset()["offset_ns"]
        return [layer for layer in self._layers if layer["start_ns"] >= since_ns]


def layers_of(
    document: dict[str, Any],
    thread: int,
    program: Sequence[Operator] = (),
    primitives: Sequence[Primitive] | None = None,
    outside: list[Primitive] | None = None,
    devices: list[OnGpu] | None = None,
) -> list[dict[str, Any]]:
    """The outermost operators of a thread in a profile of Kineto (Chrome's form, microseconds since its base).

    What has no namespace (``forward``) is what asked for the operators within it; if there are none, a layer itself.
    With oneDNN's ``primitives`` each layer has ``inside`` its operator, and within this all that it ran; what oneDNN
    ran in no operator of the profile is added to ``outside``. ``devices``: of a run on a GPU gets what was told of it.
    """
    base_ns = int(document.get("baseTimeNanoseconds", 0))
    events = [
        event
        for event in document["traceEvents"]
        if event.get("cat") == "cpu_op" and event.get("ph") == "X" and event["tid"] == thread
    ]
    events.sort(key=lambda event: (event["ts"], -event["dur"]))
    outermost: list[dict[str, Any]] = []
    inner: list[dict[str, Any]] = []
    for at, event in enumerate(events):
        if outermost and event["ts"] + event["dur"] <= outermost[-1]["ts"] + outermost[-1]["dur"]:
            inner.append(event)
            continue
        following = events[at + 1] if at + 1 < len(events) else None
        holds = following is not None and following["ts"] < event["ts"] + event["dur"]
        if "::" in event["name"] or not holds:
            outermost.append(event)
            inner.append(event)
    trees: list[Node] = [] if primitives is None and devices is None else trees_of(inner, base_ns)
    nowhere = place(primitives or (), trees)
    if outside is not None:
        outside += nowhere
    if devices is not None:
        devices.append(kineto_gpu.put(document["traceEvents"], thread, base_ns, trees))
    times: list[dict[str, int]] = [{} for _ in outermost]
    if devices is not None:
        times = [
            {name: told.pop(name) for name in (GPU_NS, ALONE_NS) if name in told}
            for told in (tree["attributes"] for tree in trees)
        ]
    names = [event["name"].partition("::")[2] or event["name"] for event in outermost]
    known = _of_program(names, program)
    layers = []
    for at, (event, name) in enumerate(zip(outermost, names, strict=True)):
        operator = known[at] if known else Operator(name, _module(event))
        start_ns = base_ns + round(event["ts"] * 1000)
        layers.append(
            {
                "name": f"{operator.module}/{name}" if operator.module else name,
                "type": name,
                "start_ns": start_ns,
                "end_ns": start_ns + round(event["dur"] * 1000),
                "attributes": _given(operator) | times[at],
                **({"inside": [trees[at]]} if primitives is not None else {}),
            }
        )
    return layers


def _given(operator: Operator) -> dict[str, Any]:
    """What is known of what it gives."""
    shapes = {} if operator.shape is None else {"output_shapes": [operator.shape]}
    return shapes | ({} if operator.output_bytes is None else {"output_bytes": operator.output_bytes})


def _module(event: dict[str, Any]) -> str:
    """``layer1.0.conv1`` of ``TOP(ResNet)::forward.layer1(Sequential)::forward.0(Block)::forward.conv1(Conv2d)...``."""
    path = _MODULES.findall(event.get("args", {}).get("Module Hierarchy", ""))
    return ".".join(name for name in path if name not in ("TOP", "SELF"))


def _of_program(names: Sequence[str], program: Sequence[Operator]) -> list[Operator]:
    """What is known of each operator that ran, if the program's are among them in their order; [] if not."""
    known: list[Operator] = []
    for operator in program:
        while len(known) < len(names) and names[len(known)] != operator.name:
            # Before and after the module's call: inputs are copied, answers taken out.
            known.append(Operator(names[len(known)], ""))
        if len(known) == len(names):
            return []
        known.append(operator)
    return known + [Operator(name, "") for name in names[len(known) :]] if program else []
