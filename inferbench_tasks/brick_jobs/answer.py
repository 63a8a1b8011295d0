"""What follows for a model from the times that are stored of its bricks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.brick_jobs.ages import ages
from inferbench_tasks.brick_jobs.coverage import MEASURED_RATIO, percent
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.decompositions import of_precision, of_view
from inferbench_tasks.brick_jobs.documents import cut_of, shapes_text
from inferbench_tasks.brick_jobs.estimates import Estimates, estimated, known_bricks
from inferbench_tasks.brick_jobs.interpolation import interpolation, line_between, measured_sizes, why_none
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.constructors import SUM
from inferbench_tasks.bricks.measure.method import DEVICE, Method, Setting
from inferbench_tasks.bricks.prediction import StandIns
from inferbench_tasks.bricks.results import Result

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults

#: So many other models tell how far a prediction may be off, if as many are measured as a whole: with twenty Student's
#: quantile is 2.09, and more of them would hardly change it (1.96).
_JUDGING = 20
#: So many more models than these are looked at: some may be the same model, or lack bricks; and so many documents at
#: most, where versions of few models are the newest.
_SPARE, _MOST_CUTS = 3, 100
#: Of so many of the newest models the bricks teach estimates.
_MODELS = 200


def answer(
    results: PerfDBResults,
    cut: CutModel,
    known: Mapping[str, Result],
    calibrate_on: int,
    constructor: str = "sequential",
) -> dict[str, Any]:
    """What is predicted of a model at a setting, calibrated by ``calibrate_on`` others that were measured there.

    ``known``: its bricks' times, and its own where it was measured as a whole. Bricks that are ``missing`` are
    interpolated where the model is measured at a smaller and at a larger batch size, else estimated; ``predicted_ms``
    is null where neither can be done, and of a batch size beyond all that it is measured at (``why``). ``origins``: on
    which hosts its times were measured, what was interpolated, what estimated, and from whose times.
    """
    unique = set(cut.parts)
    absent = unique - set(known)
    facts: dict[str, Any] = {
        "model": cut.name,
        "digest": cut.digest,
        "batch_size": cut.batch_size,
        "granularity": cut.granularity,
        "view": cut.view,
        "precision": cut.precision,
        "shapes": shapes_text(cut.shapes),
        "device": results.setting.processor,
        "runtime": results.setting.runtime,
        "cores": results.setting.cores,
        "threads": results.setting.threads,
        "constructor": constructor,
        "bricks": len(cut.parts),
        "unique": len(unique),
        "missing": len(absent),
        # Of a prediction from stored times alone; whoever measures says otherwise.
        "measured_now": 0,
        "disturbed": None,
    }
    none = {"coverage_ratio": None, "predicted_ms": None, "predicted_interval_ms": None}
    sizes = measured_sizes(results, cut) if absent else ({}, {})
    line = line_between(sizes, cut.batch_size)
    between = interpolation(results, cut, line, absent) if line else None
    rest = set() if between else absent
    estimates = _estimates(results, cut, rest) if rest else None
    if rest and estimates is None:
        return {**facts, **none, "why": why_none(sizes, cut.batch_size) if sizes[0] else None}
    of = {
        "granularity": cut.granularity,
        "batch_size": cut.batch_size,
        "precision": of_precision(cut.precision),
        # In another view the layers are others, and the model itself goes by another name.
        "view": of_view(cut.view),
    }
    measured = [name for name in results.whole_names() if name != cut.whole]
    others = _others(results, measured, of, max(calibrate_on, _JUDGING) + _SPARE)
    wanted = {part for other in others for part in other["parts"]} | {other["whole"] for other in others}
    all_known = {**results.get_many((wanted | {cut.whole}) - set(known)), **known}
    unmeasured: dict[str, Mapping[str, StandIns]] = {}
    if between is not None:
        all_known |= between.times
        unmeasured["interpolated"] = between.off
    if estimates is not None:
        all_known |= stand_ins(cut, estimates, known, results.setting)
        unmeasured["estimated"] = {
            state: prediction.stand_ins(rest, spread, estimates.families)
            for state, spread in estimates.spreads.items()
        }
    cuts = [cut.model_copy(update={"at": 0})]
    # What calibrates is measured, all of it; at a size between two, at these.
    for at, other in enumerate(others, start=1):
        if not absent & set(other["parts"]):
            cuts.append(cut_of(at, other, all_known))
    there = {other.operators for other in cuts}
    for twin, times in between.calibrating if between else ():
        if twin.operators not in there:
            all_known |= {name: time for name, time in times.items() if name not in all_known}
            cuts.append(twin.model_copy(update={"at": len(cuts)}))
    [one] = predictions(
        cuts, all_known, calibrate_on, constructor, {0: unmeasured}, wanted={0}, own=results.own
    )[0]
    if estimates and sizes[0] and one.coverage_ratio < MEASURED_RATIO:
        # Families that were held back tell nothing of other batch sizes than those that they were measured at.
        return {**facts, **none, "why": why_none(sizes, cut.batch_size)}
    own = [known[part] for part in unique - absent]
    rounds_ns = all_known[cut.whole].rounds_ns["warm"] if one.measured else ()
    shown = facts | {
        "estimated_error_ratio": math.expm1(estimates.spreads[one.state]) if estimates else None,
        "coverage_ratio": one.coverage_ratio,
        **ages([*own, *(between.times.values() if between else ())], results.now()),
        **(between.facts(one.interpolated_ratio, one.state) if between else {}),
        "predicted_ms": one.best.ms,
        "predicted_interval_ms": [one.best.low_ms, one.best.high_ms],
        "constructed_ms": one.constructed.ms,
        "state": one.state,
        "warm_ms": one.warm_sum.ms,
        "streamed_ms": one.streamed.ms,
        "calibrated_ms": one.calibrated.ms if one.calibrated else None,
        "calibrated_by_class_ms": one.calibrated_by_class.ms if one.calibrated_by_class else None,
        "calibrated_by": one.calibrated_by,
        "judged_by": one.interval_judged_by,
        "class_factors": one.class_factors if one.by_class else None,
        "factor": one.factor,
        "measured_ms": one.measured.ms if one.measured else None,
        "measured_interval_ms": [one.measured.low_ms, one.measured.high_ms] if one.measured else None,
        "measured_rounds_ms": [ns / 1e6 for ns in rounds_ns] or None,
        "device_ms": device_ms(cut, known),
        "by_operators": one.by_operators,
        "by_operators_of": "the sum of all bricks",
        **({"timed_on": one.timed_on} if one.timed_on else {}),
        "origins": [origin.model_dump() for origin in one.origins],
    }
    return ({"warning": little_measured(shown)} if one.coverage_ratio < MEASURED_RATIO else {}) | shown


def _others(
    results: PerfDBResults, measured: Sequence[str], of: Mapping[str, Any], wanted: int
) -> list[dict[str, Any]]:
    """How models that were measured as a whole are cut, the newest first; of those with the same layers the newest
    alone, for one of them calibrates (``predictions``)."""
    limit = wanted
    while True:
        found = results.cuts_of(measured, of, limit)
        distinct: dict[Any, dict[str, Any]] = {}
        for one in found:
            distinct.setdefault(_layers(one), one)
        if len(distinct) >= wanted or len(found) < limit or limit >= _MOST_CUTS:
            return list(distinct.values())[:wanted]
        limit = min(4 * limit, _MOST_CUTS)


def _layers(cut: Mapping[str, Any]) -> tuple[Any, ...]:
    """The operators of its bricks in order; the model itself where their work was not counted."""
    operators = {one["identity"]: tuple(one["operators"]) for one in cut.get("work") or ()}
    if not all(part in operators for part in cut["parts"]):
        return (cut["whole"],)
    return tuple(operator for part in cut["parts"] for operator in operators[part])


def device_ms(cut: CutModel, known: Mapping[str, Result]) -> float | None:
    """What a GPU itself is busy with a model's bricks, by its events: far below ``constructed_ms`` the launches of
    kernels bound it. None where a brick has no such time: on a CPU, and without torch beside the GPU's runtime."""
    if not all(part in known and DEVICE in known[part].rounds_ns for part in cut.parts):
        return None
    return math.fsum(float(np.mean(known[part].rounds_ns[DEVICE])) for part in cut.parts) / 1e6


def little_measured(row: Mapping[str, Any]) -> str:
    """What is said first of a prediction most of which is not measured."""
    what = "estimated"
    if row.get("interpolated"):
        low, high = row["interpolated_between"]
        what = f"interpolated between batch {low} and {high}"
    whole = row.get("constructor", SUM) == SUM
    where = "" if whole else ", where the rest takes as long as it may"
    return (
        f"only {percent(row['coverage_ratio'])} of this time is measured{where}: "
        f"{row['missing']} of {row['unique']} unique bricks are {what}"
    )


def _estimates(results: PerfDBResults, cut: CutModel, absent: set[str]) -> Estimates | None:
    works = [work for work in cut.work if work.identity in absent]
    if len(works) < len(absent):
        return None
    # In another precision the same operator and work take another time, in another view the layers are others.
    cuts = results.measured_cuts(_MODELS, cut.view, cut.precision)
    every = {work["identity"] for other in cuts for work in other["work"]}
    return estimated(works, known_bricks(cuts, results.get_many(every)))


def stand_ins(
    cut: CutModel, estimates: Estimates, known: Mapping[str, Result], setting: Setting
) -> dict[str, Result]:
    """Estimated times in the form of measured ones, of as many rounds as those have: they do not differ by round."""
    rounds = max([len(one.rounds_ns["warm"]) for one in known.values()] + [2])
    operators = {work.identity: work.operators for work in cut.work}
    return {
        identity: Result(
            identity=identity, key=identity, operators=operators[identity], setting=setting, session="estimated",
            method=Method(), rounds_ns={state: (ns,) * rounds for state, ns in times.items()}, raw_ns={},
            from_hosts=estimates.places,
        )
        for identity, times in estimates.ns.items()
    }  # fmt: skip
