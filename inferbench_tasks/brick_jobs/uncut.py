"""Registered models that nobody cut yet for a runtime and an instruction set, as they are in their newest version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_runtime
from inferbench_tasks.brick_jobs.made_from import made_from_card
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.perfdb.store import PerfDB


def uncut(db: PerfDB, cards: Iterable[ModelCard], setting: Setting) -> list[str]:
    """The names of those that were not cut for a setting's runtime and instruction set as they are now."""
    keys = {made_from_card(card): card.name for card in cards}
    where: dict[str, Any] = {"instruction_set": setting.instruction_set, "view": "runtime"}
    where |= {"runtime": of_runtime(setting.runtime_name), "made_from": {"$in": list(keys)}}
    known: list[str] = db.retrying(
        lambda: db.collection(DECOMPOSITIONS).distinct("made_from", where), "reading decompositions"
    )
    return sorted(name for key, name in keys.items() if key not in set(known))
