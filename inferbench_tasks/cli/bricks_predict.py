"""``inferbench bricks predict``: models' latency from benchmarks of their unique bricks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.bricks_model import asked, named, sizes_of
from inferbench_tasks.cli.bricks_options import (
    BATCH,
    FRAMEWORK,
    GRANULARITY,
    PRECISION,
    SHAPE,
    known_precision,
)
from inferbench_tasks.cli.bricks_progress import progress
from inferbench_tasks.errors import InferBenchError, InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.inside.decompose import Output
    from inferbench_tasks.brick_jobs.predict import Progress as Tell
    from inferbench_tasks.bricks.measure.method import Method
    from inferbench_tasks.perfdb.store import PerfDB

    Cut = Callable[[dict[str, Any], set[str]], Output]

MODELS = typer.Argument(
    ...,
    metavar="MODEL...|FILE.yaml",
    help="Built-in models, or paths of models' files or folders; or one serving submission.",
)
DEVICE = typer.Option(
    "", "--device", help="Part of a processor's name: from what is stored of it alone; nothing is timed."
)
THREADS = typer.Option(1, "--threads", min=1, help="ONNX Runtime's threads, each with a core of its own.")
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
    granularity: str = GRANULARITY,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    precision: str = PRECISION,
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
    from inferbench_tasks.brick_jobs.queries import settings_of
    from inferbench_tasks.brick_jobs.spec import MOST_GRANULARITY
    from inferbench_tasks.bricks.constructors import constructor_of
    from inferbench_tasks.bricks.measure.method import Method
    from inferbench_tasks.bricks.measure.session import cores_for
    from inferbench_tasks.bricks.prediction import FEWEST_CALIBRATING
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.cli.bricks_load import SUFFIXES, Wish, predict_load
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.running.child import keeping

    if twice := sorted({model for model in models if models.count(model) > 1}):
        raise InputError(f"named twice: {', '.join(twice)}", field="model")
    if device and (whole or again):
        raise InputError("with --device nothing is timed: leave --whole and --again out", field="device")
    constructor_of(constructor)
    if view not in VIEWS:
        raise InputError(f"predictions are of the views {' and '.join(VIEWS)}, not {view!r}", field="view")
    most = parse_granularity(granularity)
    if most is not None and most > MOST_GRANULARITY:
        raise InputError(f"at most {MOST_GRANULARITY} layers, or whole, not {most}", field="granularity")
    if not device:
        cores_for(threads)
    known_precision(precision)
    if 0 < calibrate_on < FEWEST_CALIBRATING:
        raise InputError(
            f"{calibrate_on} models say nothing of how far predictions are off; take at least {FEWEST_CALIBRATING}, "
            "or 0",
            field="calibrate_on",
        )
    wish = {"granularity": (most or "whole",), "batch_sizes": (batch,), "wholes": whole, "view": view}
    wish |= {"shapes": dict(sizes_of(text) for text in shape)}
    method = Method(runs=runs, rounds=rounds, budget_s=2.0)
    if submissions := [model for model in models if model.endswith(SUFFIXES)]:
        if len(models) > 1:
            raise InputError(
                f"{submissions[0]} is a submission: one by itself, without models", field="model"
            )
        if batch != 1 or framework is not None or threads != 1 or precision != "fp32" or whole:
            raise InputError(
                f"{submissions[0]} says itself which batches, framework, precision and threads it means, and nothing "
                "of it is run: leave --batch-size, --framework, --precision, --threads and --whole out",
                field="model",
            )
        del wish["batch_sizes"], wish["wholes"]
        predict_load(
            Path(submissions[0]), Wish(device, again, calibrate_on, constructor, method, wish), output
        )
        return
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    with progress() as bar, PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db, keeping():
        settings_of(db, device)  # an unknown one is told before a model is made
        task = bar.add_task("preparing", total=None)
        for model in models:

            def tell(what: str, done: float, of: float | None, model: str = model) -> None:
                bar.update(task, description=f"{model}: {what}", completed=done, total=of)

            try:
                with asked(
                    named(model, framework), lambda done, of, what: tell(what, done, of), precision
                ) as (
                    common,
                    ctx,
                ):
                    cut = partial(_cut, common, ctx)
                    if device:
                        rows.append(_stored(db, cut, device, threads, wish, constructor, calibrate_on))
                    else:
                        rows.append(
                            _here(db, cut, threads, wish, method, again, constructor, calibrate_on, tell)
                        )
            except InferBenchError as error:
                if len(models) == 1:
                    raise
                failed.append(f"{model}: {error}")
    for row in rows:
        if row.get("warning"):
            say(f"{row['model']}: {row['warning']}.")
    emit([_short(row) for row in rows] if output is OutputFormat.table else rows, output)
    for row in rows:
        say(_in_words(row))
    if failed:
        raise StageError(f"{len(failed)} of {len(models)} models have no prediction:\n" + "\n".join(failed))


def _here(
    db: PerfDB, cut: Cut, threads: int, wish: dict[str, Any], method: Method, again: bool, constructor: str,
    calibrate_on: int, tell: Tell,
) -> dict[str, Any]:  # fmt: skip
    """What is missing is timed on this machine."""
    from inferbench_tasks.brick_jobs.predict import answer_here, measure
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.session import cores_for, setting

    results = PerfDBResults(db, setting(cores_for(threads), threads))
    stored = set() if again else results.usable(method, None)
    one = cut({**wish, "method": method}, stored)
    results.put_cuts(one.cuts)
    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        measured = measure(one.missing, results, method, Path(folder), tell)
    return answer_here(results, one.cuts[0], wish["wholes"], one.known, measured, constructor, calibrate_on)


def _stored(
    db: PerfDB, cut: Cut, device: str, threads: int, wish: dict[str, Any], constructor: str, calibrate_on: int
) -> dict[str, Any]:
    """From stored times alone. The model is cut here: its bricks are those of a device of this instruction set."""
    from inferbench_tasks.brick_jobs.stored import answered

    one = cut({**wish, "networks": False}, set())
    return answered(db, one.cuts[0], device, threads, calibrate_on, constructor)


def _cut(common: dict[str, Any], ctx: Any, wish: dict[str, Any], stored: set[str]) -> Output:
    from inferbench_tasks.brick_jobs.cut_all import asked_to_cut

    return asked_to_cut(ctx, stored, **common, **wish)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of the table."""
    shown = {name: row.get(name) for name in ("model", "bricks", "unique", "measured_now", "coverage_ratio")}
    shown |= {"predicted_ms": row["predicted_ms"], "95%": ""}
    if row["predicted_interval_ms"]:
        low, high = row["predicted_interval_ms"]
        shown["95%"] = f"{low:.4g} to {high:.4g}"
    if row.get("measured_ms"):
        shown |= {
            "measured_ms": row["measured_ms"],
            "over measured": row["predicted_ms"] / row["measured_ms"],
        }
    return shown | {"quiet": "no" if row.get("disturbed") else "yes"}


def _in_words(row: dict[str, Any]) -> str:
    """What a reader must know of the figure."""
    text = f"{row['model']} on {row['device']}, {row['runtime']}: "
    if row.get("disturbed"):
        text += f"DISTURBED: {row['disturbed']}. The constructed time is "
    if row["predicted_ms"] is None:
        return text + (
            f"no prediction: {row['missing']} of {row['unique']} unique bricks have no time on {row['device']}."
        )
    if row["precision"] == "fp16":
        text += _half(row)
    if row.get("interpolated"):
        text += _interpolated(row)
    elif row["missing"]:
        text += (
            f"{1 - row['coverage_ratio']:.1%} of it are estimated ({row['missing']} of {row['unique']} bricks; "
            f"families that were held back were {row['estimated_error_ratio']:.0%} off), which the interval has in it; "
        )
    if row["calibrated_by"]:
        text += (
            f"calibrated by {', '.join(row['calibrated_by'])} ({_factors(row)}); the interval is of the rounds and of "
            "how far those models were off."
        )
    else:
        text += (
            "not calibrated: the interval is of the rounds alone, and leaves out what cutting changes. With --whole, "
            "three other models calibrate it."
        )
    return text


def _factors(row: dict[str, Any]) -> str:
    """With and without classes: which rule was nearer to those models, each by the others, is what is predicted."""
    one = f"one factor {row['factor']:.3f}: {row['calibrated_ms']:.4g} ms"
    if row["calibrated_by_class_ms"] is None:
        return one
    by_class = f"{row['calibrated_by_class_ms']:.4g} ms"
    if row["class_factors"] is None:
        return f"{one}, which was nearer to them than factors by class: {by_class}"
    factors = ", ".join(f"{name} {factor:.3f}" for name, factor in row["class_factors"].items())
    return f"factors {factors}: {by_class}, nearer to them than {one}"


def _half(row: dict[str, Any]) -> str:
    casts = sum(one["share_ratio"] for one in row["by_operators"] if one["operators"] == "Cast")
    return (
        f"{casts:.1%} of it are casts: what ONNX Runtime's CPU has no half-precision operator for is computed in fp32, "
        "whatever the model says; "
    )


def _interpolated(row: dict[str, Any]) -> str:
    low, high = row["interpolated_between"]
    text = (
        f"{row['interpolated_ratio']:.1%} of it are interpolated between batch {low} and {high} ({row['interpolated']} "
        f"of {row['unique']} bricks; "
    )
    if row["interpolation_error_ratio"] is None:
        return (
            text
            + "the interval has in it what the two times allow: no three other models were measured between); "
        )
    return text + (
        f"{row['interpolation_judged_by']} other models that were measured between were "
        f"{row['interpolation_error_ratio']:.1%} off, which the interval has in it); "
    )
