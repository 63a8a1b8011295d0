"""What is missing on which device: bricks without a time, with an old one, and models that were not cut for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from inferbench_tasks.brick_jobs.ages import oldest_of_now
from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS
from inferbench_tasks.brick_jobs.documents import shapes_text
from inferbench_tasks.brick_jobs.names import FIELDS, NEWEST_FIRST, Names
from inferbench_tasks.brick_jobs.queries import find, newest_times, setting_of, settings_of
from inferbench_tasks.brick_jobs.uncut import notes
from inferbench_tasks.bricks.measure.method import runtime_name
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB


def gaps(db: PerfDB, device: str = "", newest: int | None = None) -> list[dict[str, Any]]:
    """For each device, and each model that was cut for its instruction set: how many of its bricks have no time there
    (``missing``), and how many one that is old (``old``).

    A registered model whose newest version was not cut yet stands first, without numbers (``note``), for the runtime of
    the nights: of another one only what was asked for is cut. Then those with
    the most missing; a model of which all is known, by times that are not old, is none of them, and what only an older
    version of a registered model consists of is missing to nobody (``Names``). In the end, without numbers, what was
    cut for other instruction sets only. ``newest``: of so many settings only, those that were begun last.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    cards = ModelRepository(db).search()
    cuts = Names(cards).current(
        find(
            db,
            DECOMPOSITIONS,
            {"model": {"$exists": True}},
            dict.fromkeys(("parts", *FIELDS), 1),
            NEWEST_FIRST,
        )
    )
    before = oldest_of_now(db.now())
    for setting in settings_of(db, device)[:newest]:
        waiting = notes(db, cards, setting_of(db, setting["setting_id"]))
        rows += [
            (0, _gap(setting, {"model": name, "batch_size": 1, "granularity": "1"}, note=note))
            for name, note in waiting.items()
        ]
        known = newest_times(db, setting["setting_id"])
        by_it = [cut for cut in cuts if (cut.get("runtime") or DEFAULT) == runtime_name(setting["runtime"])]
        rows += [(1, row) for row in _lacking(setting, by_it, known, before)]
        rows += [
            (2, _gap(setting, cut, note=_not_cut(setting)))
            for cut in _elsewhere(setting, by_it, known)
            if cut["model"] not in waiting
        ]
    rows.sort(key=lambda one: (one[0], -(one[1]["missing"] or 0), -(one[1]["old"] or 0), one[1]["model"]))
    return [row for _, row in rows]


def _lacking(
    setting: Mapping[str, Any],
    cuts: Iterable[Mapping[str, Any]],
    known: Mapping[str, datetime],
    before: datetime,
) -> Iterator[dict[str, Any]]:
    for cut in cuts:
        if cut.get("instruction_set") == setting["instruction_set"]:
            unique = set(cut["parts"])
            missing = len(unique - known.keys())
            old = sum(part in known and known[part] < before for part in unique)
            if missing or old:
                yield _gap(setting, cut, len(unique), missing, old)


def _elsewhere(
    setting: Mapping[str, Any], cuts: Iterable[Mapping[str, Any]], known: Mapping[str, datetime]
) -> Iterator[Mapping[str, Any]]:
    """Those that were cut for another instruction set, and neither for this one nor, with all times here, for none."""
    here: set[tuple[Any, ...]] = set()
    others: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for cut in cuts:
        of = *(cut.get(field) for field in ("model", "shapes", "batch_size", "granularity")), _precision(cut)
        own = cut.get("instruction_set")
        if own == setting["instruction_set"] or (own is None and set(cut["parts"]) <= known.keys()):
            here.add(of)
        elif own is not None:
            others.setdefault(of, cut)
    return (cut for of, cut in others.items() if of not in here)


def _precision(cut: Mapping[str, Any]) -> str:
    """Those of before it was kept are of fp32."""
    return str(cut.get("precision") or "fp32")


def _not_cut(setting: Mapping[str, Any]) -> str:
    return (
        f"not cut for this instruction set ({setting['instruction_set']}): `inferbench bricks predict` on such a "
        "machine does it"
    )


def _gap(
    setting: Mapping[str, Any], cut: Mapping[str, Any], bricks: int | None = None, missing: int | None = None,
    old: int | None = None, note: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "model": cut["model"], "batch_size": cut.get("batch_size"), "granularity": cut["granularity"],
        "precision": _precision(cut), "shapes": shapes_text(cut.get("shapes") or ()),
        "bricks": bricks, "missing": missing, "old": old,
        "device": setting["device"], "threads": setting["threads"], "runtime": setting["runtime"], "note": note,
    }  # fmt: skip
