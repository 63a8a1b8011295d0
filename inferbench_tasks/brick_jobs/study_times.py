"""What PerfDB knows of a corpus' times on each device: DLBricks' figures that need them (3, 9 to 12).

Of each member the newest cut at batch 1 in fp32, in the view ``runtime``; nothing is cut or timed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_precision, of_runtime, of_view
from inferbench_tasks.brick_jobs.documents import cut_of, made_of
from inferbench_tasks.brick_jobs.names import FIELDS, NEWEST_FIRST, Names
from inferbench_tasks.brick_jobs.predict import CALIBRATE_ON
from inferbench_tasks.brick_jobs.predictions import predictions, times
from inferbench_tasks.brick_jobs.queries import find, setting_of, settings_of
from inferbench_tasks.brick_jobs.result import PredictedModel
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.summary import point_of, summary
from inferbench_tasks.bricks import prediction
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB

_OF_CUTS = (*FIELDS, "whole", "parts", "needs", "layers", "task", "digest")


class Member(NamedTuple):
    """One architecture of a corpus. ``made_from``: what it is made of now (``made_from.py``), None where that can't be
    told: then its name alone counts, unless another member has it."""

    name: str
    copies: int
    made_from: str | None


def times_of(db: PerfDB, members: Sequence[Member]) -> list[dict[str, Any]]:
    """For each setting, the newest first, at which one of the members has its own time: see ``of_setting``."""
    names = Names(ModelRepository(db).search())
    found = []
    for row in settings_of(db, ""):
        setting = setting_of(db, row["setting_id"])
        documents = _documents(db, setting, members, names)
        if not documents:
            continue
        wanted = {name for one in documents.values() for name in (*one["parts"], one["whole"])}
        known = PerfDBResults(db, setting).get_many(sorted(wanted))
        cuts = [
            cut_of(at, document, known).model_copy(update={"copies": members[at].copies})
            for (at, _), document in sorted(documents.items(), key=lambda item: _order(*item[0]))
        ]
        one = of_setting(setting, members, cuts, known)
        if one["models"]:
            found.append(one)
    return found


def of_setting(
    setting: Setting, members: Sequence[Member], cuts: Sequence[CutModel], known: Mapping[str, Result]
) -> dict[str, Any]:
    """``cuts``: of members, the finest first; ``known``: the times at this setting.

    ``models``: those that were timed as a whole, with their ``end_to_end_ms`` (Figure 9) and, for each granularity at
    which all their bricks are known, ``constructed``: over that time the sum of warm times and the critical path of
    these (3), what is constructed in the state that is predicted (10), and that calibrated by others. ``without``: the
    names of the other members. ``granularities``: a row for each, of the models that are judged there
    (``architectures``, ``models``: their names): geometric mean (11) and error of what is constructed, and the speed-up
    as the paper counts it (12), in which copies count; two rows compare where their ``models`` are the same.
    ``calibrated_models``: of so many are the calibrated figures; ``disturbed``: so many more were timed while the
    machine was disturbed.
    """
    made = predictions(cuts, known, CALIBRATE_ON)
    labels = _labels(members)
    whole: dict[int, str] = {}
    for cut in cuts:
        if cut.whole in known:
            whole.setdefault(cut.at, cut.whole)
    models = []
    for at, name in sorted(whole.items()):
        own = times(prediction.measured(known[name]))
        models.append(
            {
                "model": labels[at], "copies": members[at].copies, "end_to_end_ms": own.ms,
                "end_to_end_interval_ms": [own.low_ms, own.high_ms],
                "constructed": [_ratios(one, one.measured.ms) for one in made.get(at, ()) if one.measured],
            }
        )  # fmt: skip
    return {
        **{
            name: getattr(setting, name)
            for name in ("instruction_set", "cores", "threads", "runtime", "version")
        },
        "device": setting.processor,
        "models": models,
        "without": [label for at, label in enumerate(labels) if at not in whole],
        "granularities": [
            _of_granularity(row, [labels[at] for at in sorted(cut.at for cut in point.judged)])
            for row in summary(cuts, known, made)
            if (point := point_of(row["batch_size"], row["granularity"], cuts, known, made)).judged
        ],
    }


def _labels(members: Sequence[Member]) -> list[str]:
    """Their names; of several that are called the same each with its place in the corpus."""
    count = Counter(member.name for member in members)
    return [
        f"{member.name} ({at})" if count[member.name] > 1 else member.name
        for at, member in enumerate(members, 1)
    ]


def _ratios(one: PredictedModel, own_ms: float) -> dict[str, Any]:
    return {
        "granularity": one.granularity,
        "state": one.state,
        "warm_ratio": one.warm_sum.ms / own_ms,
        "parallel_ratio": one.parallel.ms / own_ms,
        "constructed_ratio": one.constructed.ms / own_ms,
        "calibrated_ratio": one.best.ms / own_ms if one.calibrated else None,
    }


def _of_granularity(row: Mapping[str, Any], models: list[str]) -> dict[str, Any]:
    calibrated = row["predicted"]
    return {
        "granularity": row["granularity"],
        "architectures": row["judged"],
        "models": models,
        "disturbed": row["disturbed"],
        "geometric_mean": row["plain"]["geometric_mean"],
        "mean_absolute_error_ratio": row["plain"]["mean_absolute_error_ratio"],
        "calibrated_models": calibrated["models"] if calibrated else 0,
        "calibrated_geometric_mean": calibrated and calibrated["geometric_mean"],
        "calibrated_error_ratio": calibrated and calibrated["mean_absolute_error_ratio"],
        "end_to_end_ms": row["end_to_end_ms"],
        "unique_bricks_ms": row["unique_bricks_ms"],
        "speedup_ratio": row["speedup_ratio"],
    }


def _documents(
    db: PerfDB, setting: Setting, members: Sequence[Member], names: Names
) -> dict[tuple[int, str], dict[str, Any]]:
    """(Place, granularity) -> how that member was cut last, at the sizes that its inputs have by themselves: as what it
    is made of now.

    Of one that never was, as it was cut under its name, where no other member has that name: at all granularities the
    model that was cut last, and none of which it is known that it is another's, or another version.
    """
    where = {
        "instruction_set": setting.instruction_set, "view": of_view("runtime"), "batch_size": 1,
        "precision": of_precision("fp32"), "runtime": of_runtime(setting.runtime_name),
        "model": {"$exists": True},
        "$or": [
            {"model": {"$in": [member.name for member in members]}},
            {"made_from": {"$in": [member.made_from for member in members if member.made_from]}},
        ],
    }  # fmt: skip
    found = find(db, DECOMPOSITIONS, where, dict.fromkeys(_OF_CUTS, 1), NEWEST_FIRST)
    exact: dict[tuple[int, str], dict[str, Any]] = {}
    for one in found:
        shapes = {made.made_from: made.shapes for made in made_of(one)}
        for at, member in enumerate(members):
            if member.made_from in shapes:
                own = {**one, "model": member.name, "shapes": shapes[member.made_from]}
                exact.setdefault((at, one["granularity"]), own)
    return _named(names.current(found), members, {at for at, _ in exact}) | exact


def _named(
    found: Sequence[dict[str, Any]], members: Sequence[Member], known: set[int]
) -> dict[tuple[int, str], dict[str, Any]]:
    """Those under the names of the other members; ``found``: the newest first."""
    count = Counter(member.name for member in members)
    place = {
        member.name: at for at, member in enumerate(members) if count[member.name] == 1 and at not in known
    }
    of_members = {member.made_from for member in members if member.made_from is not None}
    named: dict[tuple[int, str], dict[str, Any]] = {}
    newest: dict[int, str] = {}
    for one in found:
        made = one.get("made_from") or ()
        if (at := place.get(one["model"])) is None or one["shapes"]:
            continue
        if made and (members[at].made_from is not None or not of_members.isdisjoint(made)):
            continue
        if newest.setdefault(at, one["whole"]) == one["whole"]:
            named.setdefault((at, one["granularity"]), one)
    return named


def _order(at: int, granularity: str) -> tuple[bool, int, int]:
    """By granularity, ``whole`` last; within one as in the corpus."""
    number = int(granularity) if granularity.isdigit() else 0
    return not number, number, at
