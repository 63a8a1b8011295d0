"""What is known of bricks in PerfDB: which, by which device, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS, of_precision, of_runtime
from inferbench_tasks.brick_jobs.host_column import HostColumn
from inferbench_tasks.brick_jobs.known_bricks import brick_of, flops_of, keys_like
from inferbench_tasks.brick_jobs.levels import of_setting
from inferbench_tasks.brick_jobs.machines import LEVELS, RESULTS
from inferbench_tasks.brick_jobs.names import Names
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain

KEY = re.compile(r"[0-9a-f]{8,64}")
#: What is kept of a brick itself.
FACTS = ("inputs", "outputs", "weights", "flops", "bytes", "instruction_set", "no_network")
#: Columns of a list of results.
COLUMNS = (
    "key", "operators", "warm_ms", "streamed_ms", "device", "runtime", "threads", "measured_at", "session", "identity",
)  # fmt: skip


def devices(db: PerfDB) -> list[dict[str, Any]]:
    """A row for each setting that anything was measured at: what it is, and of how many different bricks and models a
    time is known there, however often each was measured; where a device has times of several hosts, whose (``hosts``).
    """
    counts = {
        (row["_id"]["setting"], row["_id"]["whole"]): row["count"]
        for row in _aggregate(
            db,
            RESULTS,
            [
                {"$match": {"usable": True}},
                {"$group": {"_id": {"setting": "$setting_id", "whole": "$whole", "of": "$identity"}}},
                {"$group": {"_id": {"setting": "$_id.setting", "whole": "$_id.whole"}, "count": {"$sum": 1}}},
            ],
        )
    }
    rows = [
        {
            "device": level["setting"]["processor"],
            **{
                name: level["setting"][name]
                for name in ("instruction_set", "cores", "threads", "runtime", "version")
            },
            "bricks": counts.get((id, False), 0),
            "models": counts.get((id, True), 0),
            "setting_id": id,
        }
        for id, level in _levels(db).items()
    ]
    return HostColumn(db).of_settings(rows)


def listed(
    db: PerfDB, device: str = "", operators: str = "", model: str = "", limit: int = 50, skip: int = 0
) -> list[dict[str, Any]]:
    """Results of bricks, the newest first, with their ``host`` where a device has times of several. ``device``: part of
    the processor's name; ``operators``: of the brick; ``model``: one whose bricks they are."""
    where: dict[str, Any] = {"whole": False, "usable": True}
    if device:
        where["setting_id"] = {"$in": [row["setting_id"] for row in settings_of(db, device)]}
    if operators:
        where["operators"] = operators
    if model:
        cuts = find(db, DECOMPOSITIONS, {"model": model}, {"parts": 1}, [("created_at", -1)])
        where["identity"] = {"$in": sorted({part for cut in cuts for part in cut["parts"]})}
    found = find(db, RESULTS, where, {"raw_ns": 0}, [("measured_at", -1)], limit, skip)
    return HostColumn(db).beside(found, [_row(document) for document in found])


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Those of ``listed``, or of the results of ``shown``."""
    if not any("host" in row for row in rows):
        return COLUMNS
    at = COLUMNS.index("device") + 1
    return (*COLUMNS[:at], "host", *COLUMNS[at:])


def shown(db: PerfDB, key: str) -> dict[str, Any]:
    """All that is known of a brick by its key, or the unique start of one. InputError where there is none.

    ``inputs``, ``outputs``, ``weights`` (``dtype`` and ``shape`` of each, with the batch), ``flops`` and ``bytes`` of a
    run are null of one that was measured before they were kept, ``flops`` (about: two for each multiply-add of
    convolutions and products, one for each number that a layer gives) also where an operator's are not counted, or were
    counted by an earlier version that was wrong;
    ``network``: how large it is without weights, null where it is not kept, and then ``no_network`` may say why.
    ``results`` have their ``host`` where a device has times of several.
    """
    if not KEY.fullmatch(key):
        raise InputError(f"{key!r} is no key of a brick: 8 to 64 hexadecimal digits", field="key")
    found = find(db, RESULTS, {"key": {"$regex": f"^{key}"}, "whole": False}, {}, [("measured_at", -1)])
    keys = {document["key"] for document in found} | keys_like(db, key)
    if len(keys) > 1:
        raise InputError(f"several bricks begin with {key}: {', '.join(sorted(keys)[:5])}", field="key")
    if not keys:
        raise InputError(
            f"PerfDB has no brick {key!r}; `inferbench bricks list` shows those it has", field="key"
        )
    [key] = keys
    facts = brick_of(db, key) or {}
    network = facts.get("network")
    operators = found[0]["operators"] if found else facts["operators"]
    facts |= {"flops": flops_of(operators, facts)}
    identities = sorted({document["identity"] for document in found})
    cuts = find(
        db, DECOMPOSITIONS, {"parts": {"$in": identities}}, {"model": 1, "batch_size": 1, "granularity": 1}
    )
    of = {(cut.get("model"), cut.get("batch_size"), cut["granularity"]) for cut in cuts if cut.get("model")}
    results = [
        {**_row(document), "rounds_ns": document["rounds_ns"], "setting": document["setting"],
         "method": document["method"], "disturbed": document.get("disturbed")}
        for document in map(to_plain, found)
    ]  # fmt: skip
    return {
        "key": key,
        "operators": operators,
        **{name: facts.get(name) for name in FACTS},
        "network": network and {name: network[name] for name in ("bytes", "sha256")},
        "identities": identities,
        "models": [
            {"model": model, "batch_size": batch, "granularity": granularity}
            for model, batch, granularity in sorted(of, key=str)
        ],
        "results": HostColumn(db).beside(found, results),
    }


def cuts_of_model(db: PerfDB, model: str, limit: int = 0) -> list[dict[str, Any]]:
    """How a model was cut, the newest first: batch size, granularity, precision, runtime, its bricks in order
    (``bricks``: how many) and how many of them are different (``unique_bricks``).
    """
    fields = {
        "batch_size": 1,
        "granularity": 1,
        "precision": 1,
        "instruction_set": 1,
        "parts": 1,
        "runtime": 1,
    }
    found = find(db, DECOMPOSITIONS, {"model": model}, fields, [("created_at", -1)], limit)
    return [
        {
            "batch_size": cut.get("batch_size"),
            "granularity": cut["granularity"],
            "precision": cut.get("precision") or "fp32",
            "instruction_set": cut.get("instruction_set"),
            "runtime": cut.get("runtime") or DEFAULT,
            "bricks": len(cut["parts"]),
            "unique_bricks": len(set(cut["parts"])),
        }
        for cut in found
    ]


def models_of(
    db: PerfDB, task: str, batch_size: int, granularity: str, precision: str = "fp32", runtime: str = DEFAULT
) -> list[str]:
    """The models that were cut for a task and a runtime ("": any); InputError names the tasks that there are."""
    where = {"batch_size": batch_size, "granularity": granularity, "precision": of_precision(precision)}
    where |= {"runtime": of_runtime(runtime)} if runtime else {}
    cuts = find(db, DECOMPOSITIONS, where, {"model": 1, "task": 1, "made_from": 1, "sources": 1})
    known = Names(ModelRepository(db).search())
    of_task = [cut for cut in cuts if cut.get("task") == task and cut.get("model")]
    names = sorted({name for cut in of_task for name in known.of(cut) or {cut["model"]}})
    if not names:
        tasks = ", ".join(sorted({cut["task"] for cut in cuts if cut.get("task")})) or "none"
        raise InputError(
            f"no model was cut for the task {task!r} at batch {batch_size} and granularity {granularity}; known: "
            f"{tasks}",
            field="task",
        )
    return names


def settings_of(db: PerfDB, text: str) -> list[dict[str, Any]]:
    """The settings of the one of that name, else of those whose name has the text in it; the newest first.

    InputError where there is none.
    """
    every = [
        {**level["setting"], "device": level["setting"]["processor"], "setting_id": id}
        for id, level in _levels(db).items()
    ]
    found = [row for row in every if text.lower() == row["device"].lower()]
    found = found or [row for row in every if text.lower() in row["device"].lower()]
    if text and not found:
        known = ", ".join(sorted({row["device"] for row in every})) or "none"
        raise InputError(f"nothing was measured on a device {text!r}; known: {known}", field="device")
    return found


def setting_of(db: PerfDB, setting_id: str) -> Setting:
    """That of the id, which is one of ``settings_of``."""
    [level] = find(db, LEVELS, of_setting(setting_id), {"setting": 1}, limit=1)
    return Setting.model_validate(to_plain(level)["setting"])


def _levels(db: PerfDB) -> dict[str, dict[str, Any]]:
    """Setting's id -> a level of it, the newest settings first; each host has one."""
    found: dict[str, dict[str, Any]] = {}
    for level in find(db, LEVELS, {}, {"references_ns": 0}, [("created_at", -1)]):
        found.setdefault(level.get("setting_id") or level["_id"], level)
    return found


def newest_times(db: PerfDB, setting_id: str) -> dict[str, datetime]:
    """The bricks, and whole models, that have a time at a setting -> when the newest was measured; of an index's keys
    alone."""
    where = {"setting_id": setting_id, "usable": True}
    newest = {"_id": "$identity", "at": {"$max": "$measured_at"}}
    return {
        row["_id"]: row["at"].replace(tzinfo=row["at"].tzinfo or UTC)
        for row in _aggregate(db, RESULTS, [{"$match": where}, {"$group": newest}])
    }


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


def find(
    db: PerfDB, collection: str, where: Mapping[str, Any], fields: Mapping[str, int],
    sort: Sequence[tuple[str, int]] = (), limit: int = 0, skip: int = 0,
) -> list[dict[str, Any]]:  # fmt: skip
    """Documents, with these fields."""
    return db.retrying(
        lambda: list(
            db.collection(collection).find(where, fields or None, sort=list(sort), limit=limit, skip=skip)
        ),
        "reading bricks",
    )


def _aggregate(db: PerfDB, collection: str, pipeline: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return db.retrying(lambda: list(db.collection(collection).aggregate(pipeline)), "counting bricks")
