"""What executes bricks and whole models: one file each, found by name; ``base.py`` is what each of them brings."""

from __future__ import annotations

from inferbench_tasks.bricks.runtimes.base import BrickRuntime
from inferbench_tasks.registry import Registry

#: What bricks are timed by unless another runtime is asked for.
DEFAULT = "onnxruntime"
RUNTIMES: Registry[type[BrickRuntime]] = Registry(
    "runtime of bricks",
    "inferbench.brick_runtimes",
    {
        "onnxruntime": "inferbench_tasks.bricks.runtimes.onnxruntime:OnnxRuntime",
        "openvino": "inferbench_tasks.bricks.runtimes.openvino:OpenVino",
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


def precision_problem(runtime: BrickRuntime, precision: str) -> str | None:
    """What is said of a precision whose bricks a runtime does not compute, with the remedy where there is one; None of
    one that it does. It need not be installed."""
    if precision in runtime.precisions:
        return None
    default = runtime_of(DEFAULT)
    remedy = f"; {default.title} has it (runtime {DEFAULT})" if precision in default.precisions else ""
    return f"{runtime.title} bricks are of {', '.join(runtime.precisions)}; got {precision}{remedy}"
