"""``inferbench bricks``: what a model is made of (DLBricks)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from inferbench_tasks.cli.bricks_advise import advise
from inferbench_tasks.cli.bricks_known import gaps, list_bricks, show
from inferbench_tasks.cli.bricks_model import asked, named, sizes_of
from inferbench_tasks.cli.bricks_options import (
    BATCH,
    FRAMEWORK,
    GRANULARITY,
    PRECISION,
    RUNTIME,
    SHAPE,
    known_precision,
    known_runtime,
)
from inferbench_tasks.cli.bricks_predict import predict
from inferbench_tasks.cli.bricks_study import study
from inferbench_tasks.cli.bricks_suite import export, run, take_in
from inferbench_tasks.errors import StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

app = typer.Typer(
    no_args_is_help=True,
    help="Bricks: the sequences of layers that a model is made of, and that recur within it and in others.",
)
MODEL = typer.Argument(
    ..., metavar="MODEL", help="A built-in model's name, NAME@VERSION, or a model's file or folder."
)
VIEW = typer.Option(
    "runtime",
    "--view",
    help="runtime: the layers that the runtime executes here; portable; source: as converted.",
)
CHECK = typer.Option(
    False, "--check", help="Run the bricks one after the other and compare with the whole model."
)
SAVE = typer.Option(
    None, "--save", metavar="FOLDER", help="Write each unique brick there as an ONNX file, KEY.onnx."
)


app.command()(predict)
app.command()(advise)
app.command()(study)
app.command("list")(list_bricks)
app.command()(show)
app.command()(gaps)
app.command()(export)
app.command()(run)
app.command("import")(take_in)


@app.command()
def decompose(
    model: str = MODEL,
    granularity: str = GRANULARITY,
    view: str = VIEW,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    precision: str = PRECISION,
    runtime: str = RUNTIME,
    check: bool = CHECK,
    save: Path | None = SAVE,
    output: OutputFormat = OUTPUT,
) -> None:
    """Show the bricks of a model, how many of them are unique, and of which operators.

    It is converted to ONNX, its sizes are fixed, and one run with all values exposed tells shapes and contents.
    """
    from inferbench_tasks.brick_jobs.inside import describe
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.bricks.views import view_of
    from inferbench_tasks.running.perform import perform

    parse_granularity(granularity)
    view_of(view)
    known_precision(precision)
    known_runtime(runtime, view, precision)
    sizes = dict(sizes_of(text) for text in shape)
    chosen = named(model, framework)
    with (
        _progress() as progress,
        asked(chosen, lambda done, of, what: _step(progress, what), precision) as (common, ctx),
    ):
        result: describe.Output = perform(
            describe,
            describe.Input(
                **common, shapes=sizes, view=view, granularity=granularity, batch=batch, check=check,
                runtime=runtime,
                save=save is not None,
            ),
            ctx,
        )  # fmt: skip
        if save is not None:
            shutil.copytree(ctx.run_dir(common["run_id"]) / describe.SAVED, save, dirs_exist_ok=True)
    summary = result.summary
    if output is OutputFormat.table:
        emit(result.by_operators, output)
        say(_in_words(summary))
    else:
        emit({**summary, "by_operators": result.by_operators, "sequence": result.sequence}, output)
    if check and not summary["proved"]:
        allowed = " and ".join(f"{ratio:.1e}" for ratio in summary["allowed_ratios"])
        raise StageError(
            f"The bricks do not answer as the model does: differences of {summary['edges_ratio']:.1e} between bricks, "
            f"{summary['answer_ratio']:.1e} at the end; allowed are {allowed}."
        )


def _in_words(summary: dict[str, Any]) -> str:
    view = f"{summary['view']} of {summary['runtime']}"
    if summary["instruction_set"]:
        view += f" ({summary['instruction_set']})"
    text = (
        f"{summary['model']}, batch {summary['batch_size']}, view {view}, granularity {summary['granularity']}: "
        f"{summary['layers']} layers, {summary['bricks']} bricks, {summary['unique']} unique"
    )
    if summary["bricks"]:
        text += f" ({summary['unique_ratio']:.1%}), {summary['measurements']} to measure"
    if "proved" in summary:
        text += (
            f"\nChained: {summary['edges']} tensors, differences of at most {summary['edges_ratio']:.1e} between "
            f"bricks and {summary['answer_ratio']:.1e} at the end."
        )
    return text


def _progress() -> Progress:
    console = Console(stderr=True)
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    progress.add_task("preparing the model")
    return progress


def _step(progress: Progress, text: str) -> None:
    progress.update(progress.task_ids[0], description=text)
