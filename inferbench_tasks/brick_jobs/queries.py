"""What is known of bricks in PerfDB: which, by which device, what is missing, and what follows of them for a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.answer import answer, cut_of
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.store import DECOMPOSITIONS, LEVELS, RESULTS, PerfDBResults
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.processor import instruction_set
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.views import view_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain

KEY = re.compile(r"[0-9a-f]{8,64}")
#: In place of an instruction set, of cuts that are of none.
_ANY = ""
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
        where["setting_id"] = {"$in": [row["setting_id"] for row in settings_of(db, device)]}
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
    for setting in settings_of(db, device)[:newest]:
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
    constructor: str = "sequential",
) -> dict[str, Any]:
    """A model's latency from what is stored alone; nothing is run.

    At the newest of the settings of that device at which most of its bricks are known; those that are ``missing`` are
    estimated, and where they can't be ``predicted_ms`` is null. InputError for a model that was never cut, or
    a device that nothing was measured on.
    """
    newest = _newest_cuts(db, model, batch_size, granularity)
    found = list(_stored_at(db, device, newest))
    if not found:
        raise InputError(f"{model!r} was cut for no device of these: {device or 'any'}", field="device")
    results, stored, document = max(found, key=_share)
    return answer(results, cut_of(0, document, stored), stored, calibrate_on, constructor)


def by_device(
    db: PerfDB, model: str, batch_size: int, granularity: str, calibrate_on: int
) -> list[dict[str, Any]]:
    """As ``predicted``, for each processor, number of cores and of threads: at that of its settings (a runtime's
    version, a method's) at which most is known, the newest of these. InputError for a model that was never cut."""
    newest = _newest_cuts(db, model, batch_size, granularity)
    best: dict[tuple[str, int, int], _Stored] = {}
    for one in _stored_at(db, "", newest):
        of = one[0].setting
        device = (of.processor, of.cores, of.threads)
        if device not in best or _share(one) > _share(best[device]):
            best[device] = one
    return [
        answer(results, cut_of(0, document, stored), stored, calibrate_on)
        for results, stored, document in best.values()
    ]


def models_of(db: PerfDB, task: str, batch_size: int, granularity: str) -> list[str]:
    """The models that were cut for a task; InputError names the tasks that there are."""
    where = {"batch_size": batch_size, "granularity": granularity}
    cuts = _find(db, DECOMPOSITIONS, where, {"model": 1, "task": 1})
    names = sorted({cut["model"] for cut in cuts if cut.get("task") == task and cut.get("model")})
    if not names:
        tasks = ", ".join(sorted({cut["task"] for cut in cuts if cut.get("task")})) or "none"
        raise InputError(
            f"no model was cut for the task {task!r} at batch {batch_size} and granularity {granularity}; known: "
            f"{tasks}",
            field="task",
        )
    return names


def _newest_cuts(db: PerfDB, model: str, batch_size: int, granularity: str) -> dict[str, dict[str, Any]]:
    """Instruction set, or ``_ANY`` -> how the model was cut last: what had its name before may have been another."""
    where = {"model": model, "batch_size": batch_size, "granularity": granularity}
    cuts = _find(db, DECOMPOSITIONS, where, {}, [("cut_at", -1), ("created_at", -1)])
    if not cuts:
        raise InputError(
            f"{model!r} was never cut at batch {batch_size} and granularity {granularity}; a submission of kind "
            "bricks does that, or inferbench bricks predict",
            field="model",
        )
    newest: dict[str, dict[str, Any]] = {}
    for cut in cuts:
        newest.setdefault(cut.get("instruction_set") or _ANY, cut)
    return newest


#: The times of a setting, what is stored there of a cut's bricks, and the cut.
_Stored = tuple[PerfDBResults, dict[str, Result], Mapping[str, Any]]


def _stored_at(db: PerfDB, device: str, cuts: Mapping[str, Mapping[str, Any]]) -> Iterator[_Stored]:
    """What is stored of a model's bricks at each setting of that device, the newest first: of its instruction set, or
    of the view that is of none where more of those have times (a suite's, of a model that this device never saw)."""
    for setting in settings_of(db, device):
        own = [cut for cut in (cuts.get(setting["instruction_set"]), cuts.get(_ANY)) if cut is not None]
        if own:
            results = PerfDBResults(db, setting_of(db, setting["setting_id"]))
            yield max(((results, results.get_many(cut["parts"]), cut) for cut in own), key=_share)


def _share(one: _Stored) -> float:
    _, stored, cut = one
    return len(stored) / max(1, len(set(cut["parts"])))


def answered(
    db: PerfDB, cut: CutModel, device: str, threads: int, calibrate_on: int, constructor: str
) -> dict[str, Any]:
    """As ``predicted``, of a model that was cut on this machine: for devices of its instruction set, or of any where
    the view is of none."""
    own = instruction_set() if view_of(cut.view).processor else None
    settings = [row for row in settings_of(db, device) if row["threads"] == threads]
    fitting = [row for row in settings if own in (None, row["instruction_set"])]
    if not fitting:
        other = ", ".join(sorted({row["instruction_set"] for row in settings}))
        raise InputError(
            f"nothing was measured on a device {device!r} with {threads} threads"
            + (
                f" and the instruction set {own} (there: {other}); a model's bricks are of one"
                if other
                else ""
            ),
            field="device",
        )
    fullest: tuple[PerfDBResults, Mapping[str, Any]] | None = None
    for setting in fitting:
        results = PerfDBResults(db, setting_of(db, setting["setting_id"]))
        stored = results.get_many([*cut.parts, cut.whole])
        if fullest is None or len(stored) > len(fullest[1]):
            fullest = results, stored
    assert fullest is not None
    return answer(fullest[0], cut, fullest[1], calibrate_on, constructor)


def settings_of(db: PerfDB, text: str) -> list[dict[str, Any]]:
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


def setting_of(db: PerfDB, setting_id: str) -> Setting:
    """That of the id, which is one of ``settings_of``."""
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
