"""What executes bricks and whole models: one file each, found by name; ``base.py`` is what each of them brings."""

from __future__ import annotations

import contextlib

from inferbench_tasks.bricks.runtimes.base import BrickRuntime
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry

#: What may follow a kind of device: which cores are the lease's, which GPU is the environment's.
_DETAILS = {"cpu": ("",), "gpu": ("", "0")}
_ALLOWED = {"cpu": "cpu", "gpu": "gpu or gpu:0, the first that CUDA_VISIBLE_DEVICES leaves"}
#: What bricks are timed by unless another runtime is asked for.
DEFAULT = "onnxruntime"
RUNTIMES: Registry[type[BrickRuntime]] = Registry(
    "runtime of bricks",
    "inferbench.brick_runtimes",
    {
        "onnxruntime": "inferbench_tasks.bricks.runtimes.onnxruntime:OnnxRuntime",
        "openvino": "inferbench_tasks.bricks.runtimes.openvino:OpenVino",
        "onnxruntime-cuda": "inferbench_tasks.bricks.runtimes.onnxruntime_cuda:OnnxRuntimeCuda",
        "onnxruntime-tensorrt": "inferbench_tasks.bricks.runtimes.onnxruntime_tensorrt:OnnxRuntimeTensorRt",
    },
)


def runtime_of(name: str, where: str = "runtime") -> BrickRuntime:
    """That of the name. UnknownKindError for another name; ``where`` goes into the message."""
    return RUNTIMES.load(name, where)()


def runtime_here(name: str, where: str = "runtime") -> BrickRuntime:
    """That of the name, which can run here. InputError, which says what is missing, where it can't."""
    runtime = runtime_of(name, where)
    runtime.require()
    return runtime


def runtimes_of(kind: str) -> list[str]:
    """The names of those that run on a kind of device; without those of packages that can't be imported."""
    names: list[str] = []
    for name in RUNTIMES:
        with contextlib.suppress(InputError):
            names += [name] if runtime_of(name).device == kind else []
    return names


def device_problem(runtime: BrickRuntime, device: DeviceSpec) -> str | None:
    """What is said of a device that bricks of a runtime are not measured on, with the remedy; None of one that they
    are."""
    if device.kind != runtime.device:
        others = ", ".join(runtimes_of(device.kind)) or "none"
        return (
            f"bricks are measured on {runtime.device} by the runtime {runtime.name}; got {str(device)!r}; runtimes of "
            f"{device.kind}: {others}"
        )
    if device.detail not in _DETAILS[device.kind]:
        return f"bricks are measured on {_ALLOWED[device.kind]}; got {str(device)!r}"
    return runtime.unavailable()


def precision_problem(runtime: BrickRuntime, precision: str) -> str | None:
    """What is said of a precision whose bricks a runtime does not compute, with the remedy where there is one; None of
    one that it does. It need not be installed."""
    if precision in runtime.precisions:
        return None
    default = runtime_of(DEFAULT)
    remedy = f"; {default.title} has it (runtime {DEFAULT})" if precision in default.precisions else ""
    why = f": {runtime.refused[precision]}" if precision in runtime.refused else ""
    return f"{runtime.title} bricks are of {', '.join(runtime.precisions)}; got {precision}{why}{remedy}"
