"""What registered models can't take, by what the repository knows of them: told before one of them is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.spec import CorpusSpec, EntrySpec
from inferbench_tasks.bricks.inputs import sized
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.ask import Ask
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.model import RegistryModel


def findings(spec: BricksJob, ask: Ask) -> Sequence[Finding]:
    """Of each registered model of a list: whether there is one, and ``of_card``."""
    if isinstance(spec.models, CorpusSpec) or (spec.part is not None and spec.part.role != "cut"):
        return []
    named = {at: entry for at, entry in enumerate(spec.models) if isinstance(entry.model, RegistryModel)}
    return ask(lambda db: list(_found(db, named, spec.bricks.batch_sizes))) if named else []


def _found(db: PerfDB, named: Mapping[int, EntrySpec], batch_sizes: Sequence[int]) -> Iterator[Finding]:
    for at, entry in named.items():
        model = entry.model
        assert isinstance(model, RegistryModel)
        try:
            card = ModelRepository(db).show(model.name, model.version)
        except InputError as error:
            yield Finding((f"models.{at}.model.name",), error.message)
            continue
        yield from of_card(card, at, entry.shapes, batch_sizes)


def of_card(
    card: ModelCard, at: int, shapes: Mapping[str, tuple[int, ...]], batch_sizes: Sequence[int]
) -> Iterator[Finding]:
    """Batch sizes that a model of a fixed one can't take, and sizes that its inputs can't have or that it leaves open;
    ``at``: its place in the list."""
    other = [size for size in batch_sizes if card.batch_size not in (None, size)]
    if other:
        yield Finding(
            ("bricks.batch_sizes", f"models.{at}"),
            f"{card.name}@{card.version} takes {card.batch_size} samples in each call, not "
            f"{' or '.join(map(str, other))}",
        )
    if not card.inputs:
        return
    try:
        sized(tuple(card.inputs), dict(shapes))
    except InputError as error:
        yield Finding((f"models.{at}.shapes", f"models.{at}.model"), error.message)
