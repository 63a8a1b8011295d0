"""What follows for a model from the times that are stored of its bricks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.predictions import predictions

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.results import Result

#: So many more models than calibrate a prediction are looked at: some may be the same model, or lack bricks.
_SPARE = 3


def answer(
    results: PerfDBResults,
    cut: CutModel,
    known: Mapping[str, Result],
    calibrate_on: int,
    constructor: str = "sequential",
) -> dict[str, Any]:
    """What is predicted of a model at a setting, calibrated by ``calibrate_on`` others that were measured there.

    ``known``: its bricks' times, and its own where it was measured as a whole. ``predicted_ms`` is null where bricks
    are ``missing``.
    """
    unique = set(cut.parts)
    facts = {
        "model": cut.name,
        "batch_size": cut.batch_size,
        "granularity": cut.granularity,
        "device": results.setting.processor,
        "runtime": results.setting.runtime,
        "threads": results.setting.threads,
        "constructor": constructor,
        "bricks": len(cut.parts),
        "unique": len(unique),
        "missing": len(unique - set(known)),
    }
    if unique - set(known):
        return {**facts, "coverage_ratio": None, "predicted_ms": None, "predicted_interval_ms": None}
    of = {"granularity": cut.granularity, "batch_size": cut.batch_size}
    measured = [name for name in results.whole_names() if name != cut.whole]
    others = results.cuts_of(measured, of, calibrate_on + _SPARE)
    wanted = {part for other in others for part in other["parts"]} | {other["whole"] for other in others}
    all_known = {**results.get_many((wanted | {cut.whole}) - set(known)), **known}
    cuts = [cut, *(cut_of(at, other, all_known) for at, other in enumerate(others, start=1))]
    [one] = predictions(
        [cuts[0].model_copy(update={"at": 0}), *cuts[1:]], all_known, calibrate_on, constructor
    )[0]
    rounds_ns = all_known[cut.whole].rounds_ns["warm"] if one.measured else ()
    return {
        **facts,
        "coverage_ratio": one.coverage_ratio,
        "predicted_ms": one.best.ms,
        "predicted_interval_ms": [one.best.low_ms, one.best.high_ms],
        "constructed_ms": one.constructed.ms,
        "streamed_ms": one.streamed.ms,
        "calibrated_by": one.calibrated_by,
        "factor": one.factor,
        "measured_ms": one.measured.ms if one.measured else None,
        "measured_interval_ms": [one.measured.low_ms, one.measured.high_ms] if one.measured else None,
        "measured_rounds_ms": [ns / 1e6 for ns in rounds_ns] or None,
        "by_operators": one.by_operators,
    }


def cut_of(at: int, document: Mapping[str, Any], known: Mapping[str, Result]) -> CutModel:
    """A model as PerfDB has it; ``operators`` are those of its bricks in order, where all of these are known."""
    parts = tuple(document["parts"])
    whole = known.get(document["whole"])
    operators = tuple(whole.operators) if whole else (document["whole"],)
    if all(part in known for part in parts):
        operators = tuple(operator for part in parts for operator in known[part].operators)
    return CutModel(
        at=at, name=document.get("model") or "", copies=1, task=document.get("task"),
        digest=document.get("digest") or "", batch_size=document.get("batch_size") or 1,
        granularity=document["granularity"], layers=document.get("layers") or 0, operators=operators,
        whole=document["whole"], parts=parts, needs=tuple(tuple(before) for before in document["needs"]),
    )  # fmt: skip
