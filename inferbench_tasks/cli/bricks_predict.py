"""``inferbench bricks predict``: what is asked for, and whether it can be; of models or of a submission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from inferbench_tasks.cli.bricks_latency import predict_latency
from inferbench_tasks.cli.bricks_model import sizes_of
from inferbench_tasks.cli.bricks_options import (
    BATCH,
    FRAMEWORK,
    GRANULARITY,
    PRECISION,
    RUNTIME,
    SHAPE,
    known_precision,
    known_runtime,
    require_precision,
)
from inferbench_tasks.cli.bricks_wish import Wish
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat

MODELS = typer.Argument(
    ...,
    metavar="MODEL...|FILE.yaml",
    help="Built-in models, NAME@VERSION, or models' files or folders; or one serving submission.",
)
DEVICE = typer.Option(
    "", "--device", help="Part of a processor's name: from what is stored of it alone; nothing is timed."
)
CORES = typer.Option(
    None,
    "--cores",
    min=1,
    max=4096,
    help="Cores that may be used on --device, of a submission: where its server was measured on several numbers.",
)
THREADS = typer.Option(1, "--threads", min=1, help="The runtime's threads, each with a core of its own.")
RUNS = typer.Option(100, "--runs", min=15, help="Runs of each brick, in all rounds together.")
ROUNDS = typer.Option(3, "--rounds", min=3, help="Rounds; each times all bricks, in an order of its own.")
VIEW = typer.Option(
    "runtime",
    "--view",
    help="portable: without layouts of one processor, as suites are; see `bricks export`.",
)
AGAIN = typer.Option(False, "--again", help="Measure again what was measured before.")
WHOLE = typer.Option(False, "--whole", help="Time the models themselves too, and set them beside.")
CALIBRATE = typer.Option(
    3,
    "--calibrate-on",
    min=0,
    max=100,
    help="So many other whole models calibrate; above 3 by class of bricks.",
)
#: Bricks of the graph as it was converted lose what the runtime fuses: nothing is predicted from those.
VIEWS = ("runtime", "portable")
CONSTRUCTOR = typer.Option(
    "sequential",
    "--constructor",
    help="sequential: the sum; parallel: the critical path; streams:N: on N executors.",
)


def predict(
    models: list[str] = MODELS,
    device: str = DEVICE,
    cores: int | None = CORES,
    granularity: str = GRANULARITY,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    precision: str = PRECISION,
    runtime: str = RUNTIME,
    threads: int = THREADS,
    runs: int = RUNS,
    rounds: int = ROUNDS,
    whole: bool = WHOLE,
    again: bool = AGAIN,
    constructor: str = CONSTRUCTOR,
    calibrate_on: int = CALIBRATE,
    view: str = VIEW,
    output: OutputFormat = OUTPUT,
) -> None:
    """Predict models' latency, or a serving submission's figures, from the times of unique bricks in PerfDB.

    On this machine those that are missing are measured first, and kept: models that share bricks share their times, and
    submissions of kind bricks use them. With --device nothing is timed; a batch size between two that
    are measured there is interpolated, brick by brick.

    Of a submission each job's latencies under its load, and its capacity, are predicted; what the server adds is
    measured once on this machine, with a model of no work.
    """
    from inferbench_tasks.bricks.constructors import constructor_of
    from inferbench_tasks.bricks.measure.method import Method, runs_problem
    from inferbench_tasks.bricks.measure.session import cores_for
    from inferbench_tasks.bricks.prediction import require_calibrating
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.cli.bricks_load import SUFFIXES, predict_load

    if twice := sorted({model for model in models if models.count(model) > 1}):
        raise InputError(f"named twice: {', '.join(twice)}", field="model")
    if device and (whole or again):
        raise InputError("with --device nothing is timed: leave --whole and --again out", field="device")
    if cores is not None and not (device and any(model.endswith(SUFFIXES) for model in models)):
        raise InputError(
            "--cores is of another device's server: give --device and a submission", field="cores"
        )
    constructor_of(constructor)
    if view not in VIEWS:
        raise InputError(f"predictions are of the views {' and '.join(VIEWS)}, not {view!r}", field="view")
    most = parse_granularity(granularity)
    if not device:
        cores_for(threads)
    known_precision(precision)
    require_precision(runtime, precision)
    if not device:
        known_runtime(runtime, view, precision)
    require_calibrating(calibrate_on)
    if (problem := runs_problem(runs, rounds)) is not None:
        raise InputError(problem, field="runs")
    cut = {
        "granularity": (most or "whole",),
        "view": view,
        "runtime": runtime,
        "shapes": dict(sizes_of(text) for text in shape),
    }
    method = Method(runs=runs, rounds=rounds, budget_s=2.0)
    wish = Wish(device, cores, again, calibrate_on, constructor, method, cut)
    if submissions := [model for model in models if model.endswith(SUFFIXES)]:
        if len(models) > 1:
            raise InputError(
                f"{submissions[0]} is a submission: one by itself, without models", field="model"
            )
        said = batch, framework, threads, precision, runtime, whole
        if said != (1, None, 1, "fp32", "onnxruntime", False):
            raise InputError(
                f"{submissions[0]} says itself which batches, framework, precision, runtime and threads it means, and "
                "nothing of it is run: leave --batch-size, --framework, --precision, --runtime, --threads and --whole "
                "out",
                field="model",
            )
        predict_load(Path(submissions[0]), wish, output)
    else:
        wish = replace(wish, cut={**cut, "batch_sizes": (batch,), "wholes": whole})
        predict_latency(models, framework, precision, threads, wish, output)
