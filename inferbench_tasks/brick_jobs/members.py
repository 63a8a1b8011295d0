"""The jobs of one point: each model, then the cutting of all of them, then the shards; and how they find each other.

Their runs' ids end with their places in the sweep, so those of one point follow one another: a shard knows which run
cut its bricks, and the cutting which runs made its models.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from inferbench_tasks.brick_jobs.filling import model_s
from inferbench_tasks.brick_jobs.spec import (
    BricksSpec,
    CorpusSpec,
    EntrySpec,
    MeasureSpec,
    PartSpec,
    ValidateSpec,
)
from inferbench_tasks.bricks.corpus import corpora, read_corpus
from inferbench_tasks.contracts.spec import Spec

MOST_SHARDS = 64
#: Of data that is not valid there is one of each: the errors are found in the first.
_UNKNOWN = 1


def members(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs that one point stands for, as plain data."""
    if data.get("part") is not None:
        return [data]
    models, shards = _counts(data)
    parts = [("model", at) for at in range(models)] + [("cut", 0)] + [("shard", at) for at in range(shards)]
    return [
        {**copy.deepcopy(data), "part": {"role": role, "at": at, "models": models, "shards": shards}}
        for role, at in parts
    ]


def entries_of(models: CorpusSpec | Sequence[EntrySpec]) -> list[EntrySpec]:
    """The models of a list or of a corpus."""
    if not isinstance(models, CorpusSpec):
        return list(models)
    return [
        EntrySpec.model_validate({"model": {"kind": "zoo", "name": entry.model}, "copies": entry.count})
        for entry in read_corpus(models.corpus).models
    ]


def name_of(model: Spec) -> str:
    """What a model is called of which nothing but what a submission says is known: by its name, path or kind."""
    return str(
        getattr(model, "name", None) or getattr(model, "path", None) or getattr(model, "kind", "model")
    )


def shards_of(models: int, bricks: BricksSpec, measure: MeasureSpec, validate: ValidateSpec) -> int:
    """How many shards: as many as a guess of the work fills, what is stored left out of account."""
    each_s = math.fsum(
        model_s(
            measure.method,
            batch_size=batch_size,
            granularities=len(bricks.granularity),
            whole=validate.models == "all",
        )
        for batch_size in bricks.batch_sizes
    )
    return min(MOST_SHARDS, max(1, math.ceil(models * each_s / measure.shard_s)))


def run_of(run_id: str, part: PartSpec, role: str, at: int = 0) -> str:
    """The run of another part of the same point; ``part`` is that of the run ``run_id``."""
    invocation, _, place = run_id.rpartition(".")
    start = int(place) - _place(part, part.role, part.at)
    return f"{invocation}.{start + _place(part, role, at):03d}"


def _place(part: PartSpec, role: str, at: int) -> int:
    return {"model": 0, "cut": part.models, "shard": part.models + 1}[role] + at


def _counts(data: dict[str, Any]) -> tuple[int, int]:
    """(models, shards), also of data that is not valid."""
    models = data.get("models")
    name = models.get("corpus") if isinstance(models, dict) else None
    if isinstance(models, (list, tuple)):
        count = max(1, len(models))
    elif isinstance(name, str) and name in corpora():
        count = len(read_corpus(name).models)
    else:
        count = _UNKNOWN
    try:
        bricks = BricksSpec.model_validate(data.get("bricks") or {})
        measure = MeasureSpec.model_validate(data.get("measure") or {})
        validate = ValidateSpec.model_validate(data.get("validate") or {})
    except ValueError:
        return count, _UNKNOWN
    return count, shards_of(count, bricks, measure, validate)
