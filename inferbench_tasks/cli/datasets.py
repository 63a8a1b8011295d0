"""``inferbench datasets``: the data sets that a model can be evaluated on, and whether one is as it should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks.datasets.base import DATASETS, Collection, open_dataset
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

app = typer.Typer(no_args_is_help=True)
_PATH = typer.Option(
    None, "--path", help="Your file or folder, for folder, imagenet-val, table, arrays, coco and squad."
)
_SPLIT = typer.Option(None, "--split", help="A part of it by name: train, test; the usual one without.")


@app.command("list")
def listing(output: OutputFormat = OUTPUT) -> None:
    """List the data sets; nothing is opened or fetched."""
    from inferbench_tasks.datasets.about import rows

    emit(rows(), output)


@app.command()
def show(
    name: str = typer.Argument(help="As `datasets list` has it."),
    path: Path | None = _PATH,
    split: str | None = _SPLIT,
    output: OutputFormat = OUTPUT,
) -> None:
    """Open a data set: its samples, classes and how many samples each has."""
    from inferbench_tasks.datasets.about import facts

    emit([facts(_opened(name, path, split))], output)


@app.command()
def fetch(
    name: str = typer.Argument(help="As `datasets list` has it; not one of yours."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Fetch what a data set comes with, once, checked by its hash, and open it.

    Of one that is made here, or comes with an installed package, nothing is fetched; what is missing is said.
    """
    from inferbench_tasks import settings
    from inferbench_tasks.datasets.about import require_usable

    require_usable(name)
    source = DATASETS.load(name, "NAME")()
    if source.takes_path:
        raise InputError(
            f"{name} is data of yours, and nothing of it is fetched; `datasets check` reads it", field="NAME"
        )
    folder = source.fetch(settings.writable(settings.data_dir()))
    collection = open_dataset(name, None, Path.cwd())
    about = {"name": collection.shown_name, "samples": collection.count, "from": source.origin}
    emit([{**about, "fetched": folder is not None, "in": None if folder is None else str(folder)}], output)


@app.command()
def check(
    name: str = typer.Argument(help="As `datasets list` has it."),
    path: Path | None = _PATH,
    split: str | None = _SPLIT,
    model: str | None = typer.Option(None, "--model", help="A zoo model that it is to fit."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Read every sample; exit 1, with file and line, where it can't be evaluated on, or is not what its manifest says.

    With --model also: do samples and labels fit that model's inputs and classes?
    """
    import numpy as np

    from inferbench_tasks.datasets.about import facts
    from inferbench_tasks.datasets.content import require_unchanged
    from inferbench_tasks.datasets.fit import fitted
    from inferbench_tasks.requests.prepare import refuse_too_much

    collection = _opened(name, path, split)
    require_unchanged(name, DATASETS.load(name)(), collection)
    read: Callable[[Any], object] = collection.rows
    if model is not None:
        from inferbench_tasks import settings
        from inferbench_tasks.contracts.models import Watch
        from inferbench_tasks.modelrepo.build import build_model
        from inferbench_tasks.modelrepo.resolve import resolve
        from inferbench_tasks.submission.model import ZooModel

        source = resolve(ZooModel(kind="zoo", name=model), Path.cwd())
        artifact = build_model(source, settings.data_dir(), Watch())
        dataset = fitted(collection, source, artifact)
        count = collection.count
        refuse_too_much(dataset.inputs(np.arange(1)), count, "evaluate.samples", of=count)
        read = dataset.inputs
    for start in range(0, collection.count, 256):
        read(np.arange(start, min(start + 256, collection.count)))
    emit([facts(collection)], output)
    for broken in collection.left_out:
        say(f"left out: {broken}")


def _opened(name: str, path: Path | None, split: str | None) -> Collection:
    from inferbench_tasks.datasets.about import require_usable

    require_usable(name)
    if path is None:
        return open_dataset(name, None, Path.cwd(), split)
    absolute = path.expanduser().absolute()
    return open_dataset(name, absolute.name, absolute.parent, split)
