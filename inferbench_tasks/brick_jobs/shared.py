"""What models share: bricks that are timed once for both, of each two models (as DLBricks' Figure 7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_runtime
from inferbench_tasks.brick_jobs.queries import settings_of
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.bricks.study import jaccard_of
from inferbench_tasks.perfdb.store import PerfDB

_FIELDS = {
    "_id": 0,
    "model": 1,
    "parts": 1,
    "batch_size": 1,
    "granularity": 1,
    "instruction_set": 1,
    "precision": 1,
}


@dataclass(frozen=True)
class Shared:
    """Of models that were cut alike: for one instruction set (None: the view that is of none), batch and granularity.

    ``grid``: for each two of ``models``, the timed bricks that both have over those that either has. ``unique``: timed
    bricks of each. ``left_out``: models cut like this that are not among them, ``all_timed``: different bricks of all.
    """

    instruction_set: str | None
    batch_size: int
    granularity: str
    models: tuple[str, ...]
    unique: tuple[int, ...]
    grid: tuple[tuple[float | None, ...], ...]
    all_timed: int
    left_out: int


def shared(db: PerfDB, device: str = "", most: int = 40) -> Shared | None:
    """Of the models that were cut last for ONNX Runtime, ``most`` of them; None of less than two.

    InputError for an unknown device.

    Of all ways in which models were cut, that with the most models. Two bricks are one where one time is of both: the
    same key and, of operators whose time depends on values, the same inputs.
    """
    # One runtime's: another's bricks are other layers of the same models.
    where: dict[str, Any] = {"model": {"$exists": True}, "runtime": of_runtime(DEFAULT)}
    if device:
        sets = {row["instruction_set"] for row in settings_of(db, device)}
        where["instruction_set"] = {"$in": [*sorted(sets), None]}
    newest = [("cut_at", -1), ("created_at", -1)]
    found = db.retrying(
        lambda: list(db.collection(DECOMPOSITIONS).find(where, _FIELDS, sort=newest)),
        "reading decompositions",
    )
    ways: dict[tuple[Any, ...], dict[str, frozenset[str]]] = defaultdict(dict)
    for cut in found:
        way = cut.get("instruction_set"), cut.get("batch_size"), cut["granularity"]
        precision = cut.get("precision") or "fp32"
        name = cut["model"] if precision == "fp32" else f"{cut['model']} ({precision})"
        ways[way].setdefault(name, frozenset(cut["parts"]))
    if not ways:
        return None
    way = max(ways, key=lambda way: len(ways[way]))
    return _shared(way, ways[way], most) if len(ways[way]) > 1 else None


def _shared(way: tuple[Any, ...], bricks: Mapping[str, frozenset[str]], most: int) -> Shared:
    names = tuple(sorted(list(bricks)[:most]))
    instruction_set, batch_size, granularity = way
    return Shared(
        instruction_set=instruction_set,
        batch_size=batch_size,
        granularity=granularity,
        models=names,
        unique=tuple(len(bricks[name]) for name in names),
        grid=tuple(tuple(jaccard_of(bricks[one], bricks[other]) for other in names) for one in names),
        all_timed=len(frozenset[str]().union(*(bricks[name] for name in names))),
        left_out=len(bricks) - len(names),
    )
