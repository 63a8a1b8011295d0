"""What bricks save of a device's time: what timing each copy of each model would take, over what the shards took.

Both with all that belongs to it: loading, first runs, both states of the caches, references, repeated rounds. Of the
shards' time what timing whole models took counts as far as predictions use it, in two ways: of all that tell of any
(they calibrate it, choose the state of its caches, or tell how far it may be off), and of those alone that calibrate.
Whole models beside these are measured for the judgement alone, and taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.cutting import CutModel, Cutting
from inferbench_tasks.brick_jobs.result import PredictedModel


def saved(
    models: Sequence[tuple[str, int]],
    wholes_s: Mapping[str, float],
    shards_s: float,
    used: set[str],
    calibrating: set[str],
) -> dict[str, Any]:
    """``models``: the identity that each is timed as, and its copies; ``wholes_s``: what that takes once; ``used``:
    those that predictions use, and among them the ``calibrating`` ones.

    ``used_bricks_s`` and ``used_speedup_ratio`` have all that are used in the shards' time, ``bricks_s`` and
    ``speedup_ratio`` no more than the calibrating ones. Models with other weights and the same layers are timed as one:
    without bricks each of them would be, but what was timed once is taken off once.
    """
    all_s = math.fsum(copies * wholes_s[whole] for whole, copies in models)
    wholes = {whole for whole, _ in models}

    def with_wholes_s(paid: set[str]) -> float:
        return shards_s - math.fsum(wholes_s[whole] for whole in wholes - paid)

    used_bricks_s, bricks_s = with_wholes_s(used | calibrating), with_wholes_s(calibrating)
    return {
        "models_s": all_s,
        "used": len(used | calibrating),
        "used_bricks_s": used_bricks_s,
        "used_speedup_ratio": all_s / used_bricks_s,
        "calibrating": len(calibrating),
        "bricks_s": bricks_s,
        "speedup_ratio": all_s / bricks_s,
    }


def device_time(
    found: Cutting, shards: Mapping[int, Mapping[str, Any]], made: Mapping[int, Sequence[PredictedModel]]
) -> dict[str, Any] | None:
    """``made``: what is predicted of each model. Of a submission that measured everything itself, at one batch size and
    granularity, and undisturbed; else None: what was known before, was timed by an attempt that was killed, or is cut
    twice, has no time of this one's sessions.
    """
    cuts: list[CutModel] = sorted(found.cuts, key=lambda cut: cut.at)
    if found.reused or not cuts or len({cut.at for cut in cuts}) < len(cuts):
        return None
    if {one.shard for one in found.todo} - shards.keys():
        return None
    if any(out["disturbed"] or out["failed"] or out.get("went_on") for out in shards.values()):
        return None
    wholes_s = {name: ns for out in shards.values() for name, ns in out.get("wholes_s", {}).items()}
    if not all(cut.whole in wholes_s for cut in cuts):
        return None
    shards_s = math.fsum(out["seconds"] for out in shards.values())
    every = [one for each in made.values() for one in each]
    used = {name for one in every for name in one.told_by or ()}
    calibrating = {name for one in every for name in one.calibrating}
    return saved([(cut.whole, cut.copies) for cut in cuts], wholes_s, shards_s, used, calibrating)
