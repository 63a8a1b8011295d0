"""How a model was cut last: what predictions by a name, or by what a model was made from, begin with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_precision, of_runtime, of_sources
from inferbench_tasks.brick_jobs.documents import each_of, of_one, of_source
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
    also where an older one was. At another batch size where it was never cut at this one. A model with free inputs is
    at one size of them everywhere, that at which it was cut last (``shapes``): where it was not, there is no cut.
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
    if source is not None:
        each = [dict(own) for cut in cuts for own in of_source(cut, source)]
        cuts = [own for own in each if own["made_from"] == each[0]["made_from"]]
    elif "made_from" in where:
        cuts = [dict(own) for cut in cuts if (own := of_one(cut, where["made_from"])) is not None]
    else:
        cuts = at_last_sizes(cuts)
    newest: dict[str, dict[str, Any]] = {}
    for cut in cuts:
        newest.setdefault(cut.get("instruction_set") or ANY, cut)
    for cut in reversed(cuts):
        if cut.get("batch_size") == batch_size:
            newest[cut.get("instruction_set") or ANY] = cut
    return newest


def at_last_sizes(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of the documents that a name has, the newest first, those at the sizes of free inputs at which it was cut last,
    each as of one model: for each instruction set the one that was cut last there. Another model that had the name
    before, and another length, are left out: times of two lengths do not make one prediction."""
    each = [dict(own) for document in documents for own in each_of(document)]
    if not each:
        return []
    last = _last(each, "shapes")
    by_set: dict[str, list[dict[str, Any]]] = {}
    for own in each:
        if (own.get("shapes") or ()) == (last.get("shapes") or ()):
            by_set.setdefault(own.get("instruction_set") or ANY, []).append(own)
    return [own for rows in by_set.values() for own in _of_one_model(rows)]


def _of_one_model(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By what it was made from, and by its digest where that was not kept."""
    last = _last(rows, "made_from")
    key, digest = last.get("made_from"), last.get("digest")
    return [
        row
        for row in rows
        if (row["made_from"] == key if row.get("made_from") else row.get("digest") == digest)
    ]


def _last(rows: Sequence[dict[str, Any]], field: str) -> dict[str, Any]:
    """That of the newest document; where it is of several models, which are cut alike there, the one whose ``field``
    most of the rows have, and of these the one that came last."""
    counts = Counter(row.get(field) or () for row in rows)
    newest = [row for row in rows if row["_id"] == rows[0]["_id"]]
    return max(reversed(newest), key=lambda row: counts[row.get(field) or ()])
