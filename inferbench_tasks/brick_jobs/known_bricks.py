"""What bricks are, in PerfDB: ``bricks`` has one document for each key, and GridFS its network without weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from inferbench_tasks.brick_jobs.counting import COUNT, outdated
from inferbench_tasks.brick_jobs.facts import BrickFacts
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment, to_plain, to_stored

BRICKS = "bricks"
#: So many keys are asked for at once.
_AT_ONCE = 5_000


def put_bricks(db: PerfDB, every: Iterable[BrickFacts], at: datetime | None = None) -> None:
    """Keep what each is, once, and its network, once: of one that was kept without it, it is added, and work that was
    counted in an older way is counted again. ``at``: when, by PerfDB's clock; now unless given."""
    facts = {one.key: one for one in every}
    if not facts:
        return
    kept, now = _kept(db, list(facts)), at or db.now()
    for key, one in facts.items():
        of = kept.get(key)
        if of is None:
            _insert(db, one, now)
        elif of.get("count", 1) < COUNT:
            _recount(db, one)
        if one.network is not None and not (of or {}).get("network"):
            _add_network(db, key, db.files.put(one.network, f"{key}.onnx", brick=key))


def brick_of(db: PerfDB, key: str) -> dict[str, Any] | None:
    """What is kept of a key; None of one that was measured before it was, or that nobody cut."""
    found = db.retrying(lambda: db.collection(BRICKS).find_one({"_id": key}), "reading a brick")
    return None if found is None else dict(to_plain(found))


def network_of(db: PerfDB, key: str) -> bytes:
    """Its network without weights. InputError says why there is none."""
    found = brick_of(db, key) or {}
    if (file := found.get("network")) is None:
        why = found.get("no_network") or (
            "it was measured before networks were kept; a submission with `reuse: never` keeps it"
        )
        raise InputError(f"PerfDB has no network of {key[:12]}: {why}", field="key")
    return db.files.get(Attachment.model_validate(file))


def keys_like(db: PerfDB, start: str) -> set[str]:
    """The keys that begin so; ``start``: hexadecimal digits."""
    return {str(one["_id"]) for one in _find(db, {"_id": {"$regex": f"^{start}"}}, "_id")}


def flops_of(operators: Sequence[str], brick: Mapping[str, Any]) -> float | None:
    """The FLOP of a run, about; None of operators whose arithmetic is not counted, and where it was counted wrongly.

    ``brick``: what is kept of it (``brick_of``)."""
    from inferbench_tasks.bricks.calibration import uncounted

    if uncounted(operators) or outdated(operators, brick.get("count")):
        return None
    flops: float | None = brick.get("flops")
    return flops


def _kept(db: PerfDB, keys: list[str]) -> dict[str, dict[str, Any]]:
    """Key -> whether its network is kept, and how its work was counted, of those that are kept."""
    kept: dict[str, dict[str, Any]] = {}
    for start in range(0, len(keys), _AT_ONCE):
        found = _find(db, {"_id": {"$in": keys[start : start + _AT_ONCE]}}, "network.id", "count")
        kept |= {str(one["_id"]): one for one in found}
    return kept


def _find(db: PerfDB, where: Mapping[str, Any], *fields: str) -> list[dict[str, Any]]:
    wanted = dict.fromkeys(fields, 1)
    return db.retrying(lambda: list(db.collection(BRICKS).find(where, wanted)), "reading bricks")


def _insert(db: PerfDB, one: BrickFacts, at: datetime) -> None:
    values = one.model_dump(mode="json", exclude={"key", "network", "moved_bytes"})
    values |= {"bytes": one.moved_bytes, "count": COUNT, "network": None, "created_at": at}
    db.retrying(
        lambda: db.collection(BRICKS).update_one(
            {"_id": one.key}, {"$setOnInsert": to_stored(values)}, upsert=True
        ),
        "writing a brick",
    )


def _recount(db: PerfDB, one: BrickFacts) -> None:
    """Unless another was faster."""
    older = {"_id": one.key, "$or": [{"count": {"$exists": False}}, {"count": {"$lt": COUNT}}]}
    update = {"$set": {"flops": one.flops, "bytes": one.moved_bytes, "count": COUNT}}
    db.retrying(lambda: db.collection(BRICKS).update_one(older, update), "writing a brick")


def _add_network(db: PerfDB, key: str, file: Attachment) -> None:
    """Unless another was faster."""
    update = {"$set": {"network": file.model_dump(), "no_network": None}}
    done = db.retrying(
        lambda: db.collection(BRICKS).update_one({"_id": key, "network": None}, update), "writing a brick"
    )
    if not done.matched_count:
        db.files.delete(file)
