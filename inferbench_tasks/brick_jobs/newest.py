"""How a model was cut last: what predictions by a name, or by what a model was made from, begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_precision, of_runtime, of_sources
from inferbench_tasks.brick_jobs.documents import of_one, of_source
from inferbench_tasks.brick_jobs.layers_known import require_layers
from inferbench_tasks.brick_jobs.made_from import made_from_card
from inferbench_tasks.brick_jobs.queries import find
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB

#: In place of an instruction set, of cuts that are of none.
ANY = ""


def newest_cuts(
    db: PerfDB, model: str, batch_size: int, granularity: str, precision: str, runtime: str
) -> dict[str, dict[str, Any]]:
    """Instruction set, or ``ANY`` -> how the model was cut last: what had its name before may have been another.

    Of a registered model those of its newest version alone, known by its content: InputError where that was never cut,
    also where an older one was. At another batch size where it was never cut at this one.
    """
    where: dict[str, Any] = {"granularity": granularity, "precision": of_precision(precision)}
    where["runtime"] = of_runtime(runtime)
    how = f"was never cut at granularity {granularity} in {precision} for {runtime}"
    if (card := _registered(db, model)) is not None:
        # It may have been cut as a file, under another name.
        key = made_from_card(card, precision)
        if newest := newest_of(db, where, batch_size, key):
            return {name: {**cut, "model": model} for name, cut in newest.items()}
        require_layers(db, model, granularity, precision, runtime, key)
        older = find(db, DECOMPOSITIONS, {**where, "model": model}, {"_id": 1}, limit=1)
        beside = "; what was cut under that name is another version" if older else ""
        raise InputError(
            f"{model!r} {how} as it is now, in version {card.version}{beside}. A submission of kind bricks does that, "
            f"or `inferbench bricks predict {model}@{card.version}` (--shape for inputs of a free size)",
            field="model",
        )
    if newest := newest_of(db, {**where, "model": model}, batch_size):
        return newest
    require_layers(db, model, granularity, precision, runtime)
    raise InputError(
        f"{model!r} {how}; a submission of kind bricks does that, or inferbench bricks predict", field="model"
    )


def _registered(db: PerfDB, name: str) -> ModelCard | None:
    """The newest version of that name; None where nothing is registered under it."""
    try:
        return ModelRepository(db).show(name)
    except InputError:
        return None


def newest_of(
    db: PerfDB, where: Mapping[str, Any], batch_size: int, source: str | None = None
) -> dict[str, dict[str, Any]]:
    """As ``newest_cuts``, of the decompositions of which that is true; empty where there are none.

    Where ``made_from`` is among it they are that model's, whose digest they need not have: models with other weights
    that are cut alike share a document. ``source``: of which it has to be made (``CutModel.source``), at the sizes of
    its free inputs at which it was cut last, everywhere.
    """
    where = {**where, **of_sources([source])} if source is not None else where
    cuts = find(db, DECOMPOSITIONS, where, {}, [("cut_at", -1), ("created_at", -1)])
    key = where.get("made_from")
    if source is not None:
        each = [dict(own) for cut in cuts for own in of_source(cut, source)]
        key = each[0]["made_from"] if each else None
        cuts = [own for own in each if own["made_from"] == key]
    elif key is not None:
        cuts = [dict(own) for cut in cuts if (own := of_one(cut, key)) is not None]
    newest: dict[str, dict[str, Any]] = {}
    for cut in cuts:
        newest.setdefault(cut.get("instruction_set") or ANY, cut)
    for cut in reversed(cuts):
        name = cut.get("instruction_set") or ANY
        same = key is not None or cut.get("digest") == newest[name].get("digest")
        if cut.get("batch_size") == batch_size and same:
            newest[name] = cut
    return newest
