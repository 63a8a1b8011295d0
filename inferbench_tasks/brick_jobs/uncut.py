"""Registered models that nobody cut yet for a runtime and an instruction set, as they are in their newest version; and
why a night could not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_runtime, of_sources
from inferbench_tasks.brick_jobs.documents import made_of
from inferbench_tasks.brick_jobs.made_from import made_from_card
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.perfdb.store import PerfDB

#: Of a registered model whose newest version nobody took apart.
NOT_CUT = "not cut yet: the next night does it"
#: Of one that a night tried to; with why.
CANT_CUT = "the last night could not cut it: "
FAILED = "brick_cuts_failed"
#: So much of a reason is kept.
_MOST_LETTERS = 1_000


def uncut(db: PerfDB, cards: Iterable[ModelCard], setting: Setting) -> list[str]:
    """The names of those that were not cut for a setting's runtime and instruction set as they are now, at whatever
    sizes of their free inputs."""
    keys: dict[str, list[str]] = {}
    for card in cards:
        keys.setdefault(made_from_card(card), []).append(card.name)
    where: dict[str, Any] = {"instruction_set": setting.instruction_set, "view": "runtime"}
    where |= {"runtime": of_runtime(setting.runtime_name), **of_sources(keys)}
    found = db.retrying(
        lambda: list(db.collection(DECOMPOSITIONS).find(where, {"made_from": 1, "sources": 1})),
        "reading decompositions",
    )
    known = {one.source for document in found for one in made_of(document)}
    return sorted(name for key, names in keys.items() if key not in known for name in names)


def failed(db: PerfDB, card: ModelCard, setting: Setting, why: str) -> None:
    """Keep why this version can't be cut there."""
    where = {"made_from": made_from_card(card), **_there(setting)}
    update = {"$set": {"why": " ".join(why.split())[:_MOST_LETTERS], "failed_at": db.now()}}
    db.retrying(
        lambda: db.collection(FAILED).update_one(where, update, upsert=True),
        "writing why a model can't be cut",
    )


def notes(db: PerfDB, cards: Sequence[ModelCard], setting: Setting) -> dict[str, str]:
    """Name -> what becomes of a registered model that was not cut as it is now: the next night does it, or why the last
    one could not. Empty for a runtime that nights do not run: of it only what was asked for is cut."""
    if setting.runtime_name != DEFAULT:
        return {}
    found = db.retrying(
        lambda: list(db.collection(FAILED).find(_there(setting), {"made_from": 1, "why": 1})),
        "reading why models can't be cut",
    )
    whys = {one["made_from"]: CANT_CUT + one["why"] for one in found}
    keys = {card.name: made_from_card(card) for card in cards}
    return {name: whys.get(keys[name], NOT_CUT) for name in uncut(db, cards, setting)}


def _there(setting: Setting) -> dict[str, str | None]:
    return {"runtime": setting.runtime_name, "instruction_set": setting.instruction_set}
