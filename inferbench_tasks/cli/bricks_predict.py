"""``inferbench bricks predict``: models' latency from benchmarks of their unique bricks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from inferbench_tasks import settings
from inferbench_tasks.bricks.inputs import inputs_of
from inferbench_tasks.cli.bricks_model import onnx_of, sizes_of, source_of
from inferbench_tasks.cli.bricks_options import BATCH, FRAMEWORK, GRANULARITY, SHAPE
from inferbench_tasks.errors import InferBenchError, InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

MODELS = typer.Argument(
    ..., metavar="MODEL...", help="Built-in models, or paths of models' files or folders."
)
THREADS = typer.Option(1, "--threads", min=1, help="ONNX Runtime's threads, each with a core of its own.")
RUNS = typer.Option(100, "--runs", min=15, help="Runs of each brick, in all rounds together.")
ROUNDS = typer.Option(3, "--rounds", min=3, help="Rounds; each times all bricks, in an order of its own.")
AGAIN = typer.Option(False, "--again", help="Measure again what was measured before.")
WHOLE = typer.Option(False, "--whole", help="Time the models themselves too, and set them beside.")
CONSTRUCTOR = typer.Option(
    "sequential", "--constructor", help="sequential: the sum; parallel: the critical path."
)


def predict(
    models: list[str] = MODELS,
    granularity: str = GRANULARITY,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    threads: int = THREADS,
    runs: int = RUNS,
    rounds: int = ROUNDS,
    whole: bool = WHOLE,
    again: bool = AGAIN,
    constructor: str = CONSTRUCTOR,
    output: OutputFormat = OUTPUT,
) -> None:
    """Predict models' latency on this machine from their unique bricks, and measure those that are missing.

    Each unique brick is measured once and kept: models that share bricks share their times.
    """
    from inferbench_tasks.bricks.constructors import CONSTRUCTORS
    from inferbench_tasks.bricks.measure.method import Method
    from inferbench_tasks.bricks.measure.session import cores_for, setting
    from inferbench_tasks.bricks.predict import predict_model
    from inferbench_tasks.bricks.results import Results
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.contracts.models import Watch

    if twice := sorted({model for model in models if models.count(model) > 1}):
        raise InputError(f"named twice: {', '.join(twice)}", field="model")
    CONSTRUCTORS.load(constructor, "--constructor")
    parse_granularity(granularity)
    sizes = dict(sizes_of(text) for text in shape)
    results = Results(settings.writable(settings.data_dir()), setting(cores_for(threads), threads))
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    with _progress() as bar:
        task = bar.add_task("preparing", total=None)
        for model in models:

            def tell(what: str, done: float, of: float | None, model: str = model) -> None:
                bar.update(task, description=f"{model}: {what}", completed=done, total=of)

            try:
                source = source_of(model, framework)
                onnx = onnx_of(source, Watch(progress=lambda done, of, what, tell=tell: tell(what, done, of)))
                feeds = inputs_of(source, onnx.inputs, batch, sizes)
                with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
                    prediction = predict_model(
                        Path(onnx.path), feeds, Path(folder), results, Method(runs=runs, rounds=rounds, budget_s=2.0),
                        granularity=granularity, whole=whole, again=again, constructor=constructor, progress=tell,
                    )  # fmt: skip
            except InferBenchError as error:
                if len(models) == 1:
                    raise
                failed.append(f"{model}: {error}")
                continue
            head = {"model": source.name, "batch_size": batch, "threads": threads, "granularity": granularity}
            rows.append({**head, "constructor": constructor, **prediction.row()})
    emit([_short(row) for row in rows] if output is OutputFormat.table else rows, output)
    for row in rows:
        say(_in_words(row))
    if failed:
        raise StageError(f"{len(failed)} of {len(models)} models have no prediction:\n" + "\n".join(failed))


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of the table."""
    low, high = row["predicted_interval_ms"]
    shown = {name: row[name] for name in ("model", "bricks", "unique", "measured_now", "coverage_ratio")}
    shown |= {"predicted_ms": row["predicted_ms"], "95%": f"{low:.4g} to {high:.4g}"}
    if "measured_ms" in row:
        shown |= {"measured_ms": row["measured_ms"], "over measured": row["predicted_over_measured"]}
    return shown | {"quiet": "no" if row["disturbed"] else "yes"}


def _in_words(row: dict[str, Any]) -> str:
    """What a reader must know of the figure."""
    text = f"{row['model']}: "
    if row["disturbed"]:
        text += f"DISTURBED: {row['disturbed']}. The constructed time is "
    if row["calibration"]:
        by = row["calibration"]
        text += (
            f"calibrated by {by['models']} other models (factor {by['factor']:.3f}); the interval is of the rounds "
            f"and of how far those models were off."
        )
    else:
        text += (
            "not calibrated: the interval is of the rounds alone, and leaves out what cutting changes. With --whole, "
            "three other models calibrate it."
        )
    return text


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    )  # fmt: skip
