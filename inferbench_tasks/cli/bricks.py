"""``inferbench bricks``: what a model is made of (DLBricks)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from inferbench_tasks.bricks.inputs import inputs_of
from inferbench_tasks.cli.bricks_known import gaps, list_bricks, show
from inferbench_tasks.cli.bricks_model import onnx_of, sizes_of, source_of
from inferbench_tasks.cli.bricks_options import BATCH, FRAMEWORK, GRANULARITY, SHAPE
from inferbench_tasks.cli.bricks_predict import predict
from inferbench_tasks.cli.bricks_study import study
from inferbench_tasks.errors import StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.contracts.models import Watch

app = typer.Typer(
    no_args_is_help=True,
    help="Bricks: the sequences of layers that a model is made of, and that recur within it and in others.",
)
MODEL = typer.Argument(
    ..., metavar="MODEL", help="A built-in model's name, or the path of a model's file or folder."
)
VIEW = typer.Option(
    "runtime",
    "--view",
    help="runtime: the layers ONNX Runtime executes here; portable; source: as converted.",
)
CHECK = typer.Option(
    False, "--check", help="Run the bricks one after the other and compare with the whole model."
)
SAVE = typer.Option(
    None, "--save", metavar="FOLDER", help="Write each unique brick there as an ONNX file, KEY.onnx."
)


app.command()(predict)
app.command()(study)
app.command("list")(list_bricks)
app.command()(show)
app.command()(gaps)


@app.command()
def decompose(
    model: str = MODEL,
    granularity: str = GRANULARITY,
    view: str = VIEW,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    check: bool = CHECK,
    save: Path | None = SAVE,
    output: OutputFormat = OUTPUT,
) -> None:
    """Show the bricks of a model, how many of them are unique, and of which operators.

    It is converted to ONNX, its sizes are fixed, and one run with all values exposed tells shapes and contents.
    """
    from inferbench_tasks.bricks.brick import cut
    from inferbench_tasks.bricks.decomposition import Decomposition
    from inferbench_tasks.bricks.layers import layer_graph
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.bricks.views import view_of

    layers_at_most = parse_granularity(granularity)
    view_of(view)
    sizes = dict(sizes_of(text) for text in shape)
    source = source_of(model, framework)
    with _progress() as progress, tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        onnx_model = onnx_of(source, _watch(progress))
        feeds = inputs_of(source, onnx_model.inputs, batch, sizes)
        _step(progress, "recording one run")
        graph = layer_graph(Path(onnx_model.path), feeds, view, Path(folder))
        result = Decomposition(graph, layers_at_most, list(cut(graph, layers_at_most)))
        summary = {"model": source.name, "batch_size": batch, **result.summary()}
        if check:
            _step(progress, "comparing with the whole model")
            summary |= _check(result, feeds, onnx_model, Path(folder))
        if save is not None:
            _step(progress, "writing networks")
            _save(result, save)
    if output is OutputFormat.table:
        emit(result.by_operators(), output)
        say(_in_words(summary))
    else:
        emit({**summary, "by_operators": result.by_operators(), "sequence": result.sequence()}, output)
    if check and not summary["proved"]:
        raise StageError(
            f"The bricks do not answer as the model does: differences of {summary['edges_ratio']:.1e} between bricks, "
            f"{summary['answer_ratio']:.1e} at the end; allowed are 1e-4."
        )


def _check(result: Any, feeds: Arrays, model: ModelArtifact, folder: Path) -> dict[str, Any]:
    from inferbench_tasks.bricks.chain import prove
    from inferbench_tasks.formats.onnx import open_session

    session = open_session(Path(model.path))
    names = [output.name for output in session.get_outputs()]
    answer = dict(zip(names, session.run(names, feeds), strict=True))
    proof = prove(result.graph, result.bricks, feeds, answer, folder)
    return {
        "proved": proof.holds,
        "edges": proof.edges,
        "edges_ratio": proof.edges_ratio,
        "answer_ratio": proof.answer_ratio,
    }


def _save(result: Any, folder: Path) -> None:
    from inferbench_tasks.bricks.networks import network
    from inferbench_tasks.bricks.sessions import save_network

    folder.mkdir(parents=True, exist_ok=True)
    for key, brick in result.unique.items():
        save_network(network(result.graph, brick), folder / f"{key}.onnx")


def _in_words(summary: dict[str, Any]) -> str:
    view = summary["view"]
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


def _watch(progress: Progress) -> Watch:
    from inferbench_tasks.contracts.models import Watch

    return Watch(progress=lambda amount, total, text: _step(progress, text))


def _step(progress: Progress, text: str) -> None:
    progress.update(progress.task_ids[0], description=text)
