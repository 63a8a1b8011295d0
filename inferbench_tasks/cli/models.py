"""``inferbench models``: inspect files, register, update, search, show, fetch and delete models."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.models_inspect import inspect
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.modelrepo.card import FIELDS, ModelCard, field, identity
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.queries import matches, parse
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.problem import field_problems

if TYPE_CHECKING:
    from inferbench_tasks.modelrepo.zoo import ZooFactory

app = typer.Typer(
    no_args_is_help=True,
    help="The model repository: models with versions, kept in PerfDB.\n\n"
    "A submission names one by model: {kind: registry, name: NAME, version: N}; without a version it gets "
    "the latest.",
)
app.command()(inspect)
NAME = typer.Argument(..., metavar="NAME", help="Letters, digits, dot, underscore, hyphen.")
MODEL = typer.Argument(..., metavar="MODEL", help="NAME for the latest version, or NAME@VERSION.")
QUERY = typer.Argument(None, metavar="[QUERY]", help="Terms such as task=image* parameters<1000000.")
FILE = typer.Option(None, "--file", metavar="PATH", help="A model's file or folder.")
FOLDER = typer.Argument(..., metavar="FOLDER", help="Where to write the files; made if it is missing.")
TASK = typer.Option(None, "--task", help="For instance image-classification.")
DATASET = typer.Option(None, "--dataset", help="The data set that it was trained on.")
LICENCE = typer.Option(None, "--licence", help="Its licence.")
DESCRIPTION = typer.Option(None, "--description", help="What a user should know.")
TAG = typer.Option(None, "--tag", help="A tag; may be given several times.")

COLUMNS = (
    "name", "version", "kind", "task", "framework", "format", "parameters", "flops", "accuracy_ratio", "licence",
)  # fmt: skip


@app.command()
def register(
    name: str = NAME,
    file: Path | None = FILE,
    format_: str | None = typer.Option(
        None, "--format", help="The file's format, if its name does not say it."
    ),
    zoo: str | None = typer.Option(None, "--zoo", metavar="NAME", help="A built-in model instead of a file."),
    framework: str | None = typer.Option(
        None, "--framework", help="Of the built-in model: torch, tensorflow."
    ),
    task: str | None = TASK,
    dataset: str | None = DATASET,
    licence: str | None = LICENCE,
    description: str | None = DESCRIPTION,
    tag: list[str] | None = TAG,
    output: OutputFormat = OUTPUT,
) -> None:
    """Keep a model as the next version of NAME: a file of a safe format, or a built-in model as it is now.

    Its signature, parameters, FLOPs and, on a labelled test set, accuracy are worked out first.
    """
    from inferbench_tasks.contracts.models import Watch
    from inferbench_tasks.modelrepo.build import build_model
    from inferbench_tasks.modelrepo.resolve import resolve

    spec, base_dir = _spec(file, format_, zoo, framework)
    data_dir = settings.writable(settings.data_dir())
    artifact = build_model(resolve(spec, base_dir), data_dir, Watch(progress=_teller()))
    words = {
        "task": task,
        "dataset": dataset,
        "licence": licence,
        "description": description,
        "tags": tag or None,
    }
    with _open() as db:
        card, new = ModelRepository(db).register(
            artifact,
            name,
            user=getpass.getuser(),
            origin=spec.model_dump(mode="json") if zoo else None,
            **words,
        )
    say(
        f"Registered {name}@{card.version}."
        if new
        else f"{name}@{card.version} is that model already; `models update` changes what is said about it."
    )
    emit(_shown(card), output)


@app.command()
def update(
    model: str = MODEL,
    task: str | None = TASK,
    dataset: str | None = DATASET,
    licence: str | None = LICENCE,
    description: str | None = DESCRIPTION,
    tag: list[str] | None = TAG,
    output: OutputFormat = OUTPUT,
) -> None:
    """Change what is said about a version. Its files never change: `register` makes a new version."""
    options = {
        "task": task,
        "dataset": dataset,
        "licence": licence,
        "description": description,
        "tags": tag or None,
    }
    words: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if not words:
        raise InputError("Nothing to change: give --task, --dataset, --licence, --description or --tag.")
    with _open() as db:
        name, version = identity(model)
        emit(_shown(ModelRepository(db).update(name, version, **words)), output)


@app.command()
def search(
    query: list[str] = QUERY,
    all_versions: bool = typer.Option(False, "--all-versions", help="Not only the latest of each."),
    limit: int = typer.Option(0, "--limit", "-n", min=0, help="At most so many registered ones; 0 = all."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List models, registered and built in, that match a query (fields: `models fields`)."""
    query_parts = parse(query or [], lookup=field)
    with _open() as db:
        cards = ModelRepository(db).search(query or [], limit, all_versions=all_versions)
    cards += [card for card in _zoo() if matches(query_parts.filter, card.model_dump())]
    emit([_shown(card) for card in cards], output, COLUMNS)


@app.command()
def show(model: str = MODEL, output: OutputFormat = OUTPUT) -> None:
    """Show all that is known of a registered model, and its versions."""
    name, version = identity(model)
    with _open() as db:
        repository = ModelRepository(db)
        card = repository.show(name, version)
        versions = [c.version for c in repository.search([f"name={name}"], all_versions=True)]
    emit({**_shown(card), "versions": versions}, output)


@app.command()
def fetch(model: str = MODEL, folder: Path = FOLDER) -> None:
    """Write a registered model's files into a folder; its path is printed."""
    with _open() as db:
        repository = ModelRepository(db)
        typer.echo(repository.fetch(repository.show(*identity(model)), folder))


@app.command()
def delete(model: str = MODEL, yes: bool = typer.Option(False, "--yes", help="Don't ask.")) -> None:
    """Delete a version, or with NAME alone all versions. Their numbers are not given again."""
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks before it deletes; without a terminal, say --yes.")
    if not yes and not typer.confirm(f"Delete {model} with its files?", err=True):
        return
    with _open() as db:
        for card in ModelRepository(db).delete(*identity(model)):
            say(f"Deleted {card.name}@{card.version}.")


@app.command()
def fields(output: OutputFormat = OUTPUT) -> None:
    """The fields that a query may name."""
    emit([{"field": f.name, "kind": f.kind, "meaning": f.help} for f in FIELDS], output)


def _spec(file: Path | None, format_: str | None, zoo: str | None, framework: str | None) -> tuple[Any, Path]:
    from pydantic import ValidationError

    from inferbench_tasks.submission.model import FileModel, ZooModel

    if (file is None) == (zoo is None):
        raise InputError("Give either --file PATH or --zoo NAME.")
    try:
        if file is not None:
            path = file.absolute()
            return FileModel.model_validate(
                {"kind": "file", "path": path.name, "format": format_}
            ), path.parent
        return ZooModel.model_validate({"kind": "zoo", "name": zoo, "framework": framework}), Path.cwd()
    except ValidationError as error:
        raise InputError("; ".join(field_problems(error))) from error


def _teller() -> Callable[[float, float | None, str], None]:
    last = ""

    def tell(amount: float, total: float | None, text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            say(f"{text} ...")

    return tell


def _zoo() -> list[ModelCard]:
    """The built-in models; what is measured of a model is known once it was made."""
    from inferbench_tasks.modelrepo.zoo import ZOO

    cards = []
    for name in ZOO:
        try:
            cards.append(ZOO.told(name, partial(_zoo_card, name)))
        except InferBenchError as error:  # a package's hides no other
            say(str(error))
    return cards


def _zoo_card(name: str, made: ZooFactory) -> ModelCard:
    s = made(name, None)
    return ModelCard(
        name=s.name, version=s.version, kind="zoo", task=s.task, framework=s.framework, licence=s.licence
    )


def _shown(card: ModelCard) -> dict[str, Any]:
    """The card without what only the machinery needs; sizes in bytes."""
    row = card.model_dump(exclude={"deleted_at"})
    row["files"] = {file.name: file.bytes for file in card.files}
    return row


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
