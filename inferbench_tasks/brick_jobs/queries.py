"""What is known of bricks in PerfDB: which, by which device, what is missing, and what follows of them for a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.store import DECOMPOSITIONS, LEVELS, RESULTS, PerfDBResults
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain

KEY = re.compile(r"[0-9a-f]{8,64}")
#: So many more models than calibrate a prediction are looked at: some may be the same model, or lack bricks.
_SPARE = 3
#: Columns of a list of results.
COLUMNS = (
    "key", "operators", "warm_ms", "streamed_ms", "device", "runtime", "threads", "measured_at", "session", "identity",
)  # fmt: skip


def devices(db: PerfDB) -> list[dict[str, Any]]:
    """A row for each setting that anything was measured at: what it is, and how much is known there."""
    counts = {
        (row["_id"]["setting"], row["_id"]["whole"]): row["count"]
        for row in _aggregate(
            db,
            RESULTS,
            [
                {"$match": {"usable": True}},
                {"$group": {"_id": {"setting": "$setting_id", "whole": "$whole"}, "count": {"$sum": 1}}},
            ],
        )
    }
    return [
        {
            "device": level["setting"]["processor"],
            **{
                name: level["setting"][name]
                for name in ("instruction_set", "cores", "threads", "runtime", "version")
            },
            "bricks": counts.get((level["_id"], False), 0),
            "models": counts.get((level["_id"], True), 0),
            "setting_id": level["_id"],
        }
        for level in _find(db, LEVELS, {}, {"references_ns": 0}, [("created_at", -1)])
    ]


def listed(
    db: PerfDB, device: str = "", operators: str = "", model: str = "", limit: int = 50, skip: int = 0
) -> list[dict[str, Any]]:
    """Results of bricks, the newest first. ``device``: part of the processor's name; ``operators``: of the brick;
    ``model``: one whose bricks they are."""
    where: dict[str, Any] = {"whole": False, "usable": True}
    if device:
        where["setting_id"] = {"$in": [row["setting_id"] for row in _devices_of(db, device)]}
    if operators:
        where["operators"] = operators
    if model:
        cuts = _find(db, DECOMPOSITIONS, {"model": model}, {"parts": 1}, [("created_at", -1)])
        where["identity"] = {"$in": sorted({part for cut in cuts for part in cut["parts"]})}
    found = _find(db, RESULTS, where, {"raw_ns": 0}, [("measured_at", -1)], limit, skip)
    return [_row(document) for document in found]


def shown(db: PerfDB, key: str) -> dict[str, Any]:
    """All that is known of a brick by its key, or the unique start of one. InputError where there is none."""
    if not KEY.fullmatch(key):
        raise InputError(f"{key!r} is no key of a brick: 8 to 64 hexadecimal digits", field="key")
    found = _find(db, RESULTS, {"key": {"$regex": f"^{key}"}, "whole": False}, {}, [("measured_at", -1)])
    keys = {document["key"] for document in found}
    if len(keys) > 1:
        raise InputError(f"several bricks begin with {key}: {', '.join(sorted(keys)[:5])}", field="key")
    if not found:
        raise InputError(
            f"PerfDB has no brick {key!r}; `inferbench bricks list` shows those it has", field="key"
        )
    identities = sorted({document["identity"] for document in found})
    cuts = _find(
        db, DECOMPOSITIONS, {"parts": {"$in": identities}}, {"model": 1, "batch_size": 1, "granularity": 1}
    )
    of = {(cut.get("model"), cut.get("batch_size"), cut["granularity"]) for cut in cuts if cut.get("model")}
    return {
        "key": found[0]["key"],
        "operators": found[0]["operators"],
        "identities": identities,
        "models": [
            {"model": model, "batch_size": batch, "granularity": granularity}
            for model, batch, granularity in sorted(of, key=str)
        ],
        "results": [
            {**_row(document), "rounds_ns": document["rounds_ns"], "setting": document["setting"],
             "method": document["method"], "disturbed": document.get("disturbed")}
            for document in map(to_plain, found)
        ],
    }  # fmt: skip


def gaps(db: PerfDB, device: str = "", newest: int | None = None) -> list[dict[str, Any]]:
    """For each device, and each model that was cut for its instruction set: how many of its bricks have no time there.

    Those with the most missing first; a model of which all is known is none of them. ``newest``: of so many settings
    only, those that were begun last.
    """
    rows = []
    cuts = _find(
        db, DECOMPOSITIONS, {"model": {"$exists": True}},
        {"parts": 1, "model": 1, "batch_size": 1, "granularity": 1, "instruction_set": 1},
    )  # fmt: skip
    for setting in _devices_of(db, device)[:newest]:
        known = set(_identities(db, setting["setting_id"]))
        for cut in cuts:
            if cut.get("instruction_set") != setting["instruction_set"]:
                continue
            unique = set(cut["parts"])
            if missing := sorted(unique - known):
                rows.append(
                    {
                        "model": cut["model"], "batch_size": cut["batch_size"], "granularity": cut["granularity"],
                        "bricks": len(unique), "missing": len(missing), "device": setting["device"],
                        "threads": setting["threads"], "runtime": setting["runtime"],
                    }
                )  # fmt: skip
    return sorted(rows, key=lambda row: (-row["missing"], row["model"]))


def predicted(
    db: PerfDB,
    model: str,
    device: str = "",
    batch_size: int = 1,
    granularity: str = "1",
    calibrate_on: int = 3,
) -> dict[str, Any]:
    """A model's latency from what is stored alone; nothing is run.

    At the newest of the settings of that device at which most of its bricks are known. Without all of them there is no
    figure: ``predicted_ms`` is null, and ``missing`` says how many lack. InputError for a model that was never cut, or
    a device that nothing was measured on.
    """
    where = {"model": model, "batch_size": batch_size, "granularity": granularity}
    cuts = _find(db, DECOMPOSITIONS, where, {}, [("created_at", -1)])
    if not cuts:
        raise InputError(
            f"{model!r} was never cut at batch {batch_size} and granularity {granularity}; a submission of kind "
            "bricks does that",
            field="model",
        )
    best: tuple[int, PerfDBResults, dict[str, Any], Mapping[str, Any]] | None = None
    for setting in _devices_of(db, device):
        results = PerfDBResults(db, _setting(db, setting["setting_id"]))
        for cut in cuts:
            if cut.get("instruction_set") != setting["instruction_set"]:
                continue
            known = results.get_many(cut["parts"])
            if best is None or len(known) > best[0]:
                best = (len(known), results, cut, known)
    if best is None:
        raise InputError(f"{model!r} was cut for no device of these: {device or 'any'}", field="device")
    return _prediction(best[1], best[2], best[3], calibrate_on)


def _prediction(
    results: PerfDBResults, document: Mapping[str, Any], known: Mapping[str, Any], calibrate_on: int
) -> dict[str, Any]:
    unique = set(document["parts"])
    facts = {
        "model": document["model"],
        "batch_size": document["batch_size"],
        "granularity": document["granularity"],
        "device": results.setting.processor,
        "runtime": results.setting.runtime,
        "threads": results.setting.threads,
        "bricks": len(document["parts"]),
        "unique": len(unique),
        "missing": len(unique - set(known)),
    }
    if unique - set(known):
        return {**facts, "coverage_ratio": None, "predicted_ms": None, "predicted_interval_ms": None}
    of = {"granularity": document["granularity"], "batch_size": document["batch_size"]}
    measured = [name for name in results.whole_names() if name != document["whole"]]
    others = results.cuts_of(measured, of, calibrate_on + _SPARE)
    wanted = {part for cut in others for part in cut["parts"]} | {cut["whole"] for cut in others}
    all_known = {**results.get_many((wanted | {document["whole"]}) - set(known)), **known}
    wholes = {
        cut["whole"]: all_known[cut["whole"]] for cut in [document, *others] if cut["whole"] in all_known
    }
    cuts = [_cut(at, cut, wholes) for at, cut in enumerate([document, *others])]
    [one] = predictions(cuts, all_known, calibrate_on)[0]
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
        "by_operators": one.by_operators,
    }


def _cut(at: int, document: Mapping[str, Any], wholes: Mapping[str, Any]) -> CutModel:
    whole = wholes.get(document["whole"])
    return CutModel(
        at=at, name=document.get("model") or "", copies=1, task=document.get("task"),
        digest=document.get("digest") or "", batch_size=document.get("batch_size") or 1,
        granularity=document["granularity"], layers=document.get("layers") or 0,
        operators=tuple(whole.operators) if whole else (document["whole"],), whole=document["whole"],
        parts=tuple(document["parts"]), needs=tuple(tuple(before) for before in document["needs"]),
    )  # fmt: skip


def _devices_of(db: PerfDB, text: str) -> list[dict[str, Any]]:
    """The settings of those whose name has the text in it, the newest first. InputError where there is none."""
    every = [
        {**level["setting"], "device": level["setting"]["processor"], "setting_id": level["_id"]}
        for level in _find(db, LEVELS, {}, {"references_ns": 0}, [("created_at", -1)])
    ]
    found = [row for row in every if text.lower() in row["device"].lower()]
    if text and not found:
        known = ", ".join(sorted({row["device"] for row in every})) or "none"
        raise InputError(f"nothing was measured on a device {text!r}; known: {known}", field="device")
    return found


def _setting(db: PerfDB, setting_id: str) -> Setting:
    [level] = _find(db, LEVELS, {"_id": setting_id}, {"setting": 1})
    return Setting.model_validate(to_plain(level)["setting"])


def _identities(db: PerfDB, setting_id: str) -> list[str]:
    where = {"usable": True, "setting_id": setting_id, "whole": False}
    return db.retrying(lambda: db.collection(RESULTS).distinct("identity", where), "reading bricks")


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    plain = to_plain(dict(document))
    rounds = plain["rounds_ns"]
    return {
        "key": plain["key"],
        "operators": " > ".join(plain["operators"]),
        "warm_ms": _mean_ms(rounds.get("warm")),
        "streamed_ms": _mean_ms(rounds.get("streamed")),
        "device": plain["setting"]["processor"],
        "runtime": plain["setting"]["runtime"],
        "threads": plain["setting"]["threads"],
        "measured_at": plain["measured_at"],
        "session": plain["session"],
        "identity": plain["identity"],
    }


def _mean_ms(rounds: Sequence[float] | None) -> float | None:
    return sum(rounds) / len(rounds) / 1e6 if rounds else None


def _find(
    db: PerfDB, collection: str, where: Mapping[str, Any], fields: Mapping[str, int],
    sort: Sequence[tuple[str, int]] = (), limit: int = 0, skip: int = 0,
) -> list[dict[str, Any]]:  # fmt: skip
    return db.retrying(
        lambda: list(
            db.collection(collection).find(where, fields or None, sort=list(sort), limit=limit, skip=skip)
        ),
        "reading bricks",
    )


def _aggregate(db: PerfDB, collection: str, pipeline: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return db.retrying(lambda: list(db.collection(collection).aggregate(pipeline)), "counting bricks")
