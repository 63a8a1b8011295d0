"""What the subcommands of ``inferbench bricks`` have in common: which model, in which sizes, cut how."""

from __future__ import annotations

import typer

from inferbench_tasks.bricks.bounds import MOST_BATCH
from inferbench_tasks.errors import InputError

GRANULARITY = typer.Option("1", "--granularity", "-G", help="Layers of a brick at most: 1, 2, ... or whole.")
BATCH = typer.Option(1, "--batch-size", "--batch", "-b", min=1, max=MOST_BATCH, help="Samples at once.")
SHAPE = typer.Option(
    [], "--shape", metavar="INPUT=SIZES", help="An input's sizes without batch: image=3x224x224."
)
PRECISION = typer.Option("fp32", "--precision", help="fp32, fp16 or int8: what the model is converted to.")
FRAMEWORK = typer.Option(None, "--framework", help="torch or tensorflow, of a built-in model that has both.")
RUNTIME = typer.Option(
    "onnxruntime",
    "--runtime",
    help="What executes the bricks: onnxruntime, openvino, on a GPU onnxruntime-cuda or onnxruntime-tensorrt, or what "
    "a package brings.",
)


def known_precision(precision: str) -> str:
    """The same; InputError lists those that there are."""
    from inferbench_tasks.brick_jobs.spec import PRECISIONS

    if precision not in PRECISIONS:
        raise InputError(
            f"unknown precision {precision!r}; known: {', '.join(PRECISIONS)}", field="precision"
        )
    return precision


def known_runtime(runtime: str, view: str = "runtime", precision: str = "fp32") -> str:
    """The same, which can be used here; InputError lists those that there are, and their views and precisions."""
    from inferbench_tasks.bricks.runtimes import runtime_here

    of = runtime_here(runtime, "--runtime")
    of.require_view(view)
    require_precision(runtime, precision)
    return runtime


def require_precision(runtime: str, precision: str) -> None:
    """InputError lists the precisions whose bricks a runtime computes; it need not be installed."""
    from inferbench_tasks.bricks.runtimes import precision_problem, runtime_of

    problem = precision_problem(runtime_of(runtime, "--runtime"), precision)
    if problem is not None:
        raise InputError(problem, field="precision")
