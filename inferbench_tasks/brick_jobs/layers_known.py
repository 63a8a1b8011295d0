"""How many layers a model has in the runtime's view, as far as it was cut before: bricks can't have more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import (
    DECOMPOSITIONS,
    of_precision,
    of_runtime,
    of_sources,
)
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.made_from import made_from
from inferbench_tasks.brick_jobs.members import entries_of, name_of
from inferbench_tasks.brick_jobs.spec import CorpusSpec
from inferbench_tasks.bricks.sequences import WHOLE
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.ask import Ask
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.finding import Finding


def findings(spec: BricksJob, base_dir: Path, ask: Ask) -> Sequence[Finding]:
    """Of each model that was cut before, as it is now, whether it has as many layers as bricks are to have.

    Of one that was not it is told when it is cut. Other versions of a runtime, and other processors, may fuse more or
    fewer layers: the most that it ever had count.
    """
    most = max((one for one in spec.bricks.granularity if isinstance(one, int)), default=1)
    if most == 1 or (spec.part is not None and spec.part.role != "cut"):
        return []
    keys: dict[int, str] = {}
    for at, entry in enumerate(entries_of(spec.models)):
        try:
            keys[at] = made_from(entry.model, base_dir, spec.bricks.precision, entry.shapes)
        except InputError:
            continue  # there is no such model: others say so
    return ask(lambda db: _above(db, spec, most, keys))


def _above(db: PerfDB, spec: BricksJob, most: int, keys: Mapping[int, str]) -> list[Finding]:
    where: dict[str, Any] = {"made_from": {"$in": list(keys.values())}, "view": "runtime"}
    known = _most_layers(db, where | {"runtime": of_runtime(spec.bricks.runtime)}, "made_from")
    entries, of_list = entries_of(spec.models), not isinstance(spec.models, CorpusSpec)
    return [
        Finding(
            ("bricks.granularity", f"models.{at}" if of_list else "models.corpus"),
            too_many(name_of(entries[at].model), most, known[key]),
        )
        for at, key in keys.items()
        if most > known.get(key, most)
    ]


def too_many(model: str, granularity: int, layers: int) -> str:
    """What is said of bricks of so many layers."""
    return (
        f"bricks of {granularity} layers can't be cut from {model}, which has {layers}; allowed: 1 to {layers}, or "
        f"{WHOLE}"
    )


def require_layers(
    db: PerfDB, model: str, granularity: str, precision: str, runtime: str, made_from: str | None = None
) -> None:
    """InputError where bricks are to have more layers than a model of that name (or of that key, ``made_from``) had."""
    if granularity == WHOLE:
        return
    where: dict[str, Any] = {"precision": of_precision(precision), "runtime": of_runtime(runtime)}
    where |= {"model": model} if made_from is None else of_sources([made_from])
    layers = _most_layers(db, where, "model")
    if layers and int(granularity) > max(layers.values()):
        raise InputError(too_many(model, int(granularity), max(layers.values())), field="granularity")


def _most_layers(db: PerfDB, where: Mapping[str, Any], by: str) -> dict[str, int]:
    """The most layers of the cuts of which that is true, by a field of theirs; of those that say how many they had."""
    pipeline: list[Mapping[str, Any]] = [
        {"$match": {**where, "layers": {"$exists": True}}},
        {"$unwind": f"${by}"},
        {"$group": {"_id": f"${by}", "layers": {"$max": "$layers"}}},
    ]
    rows = db.retrying(
        lambda: list(db.collection(DECOMPOSITIONS).aggregate(pipeline)), "reading decompositions"
    )
    return {str(row["_id"]): int(row["layers"]) for row in rows}
