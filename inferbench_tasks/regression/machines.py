"""How fast each device itself was, session after session of bricks: what changes there is the machine's, no model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs import machines
from inferbench_tasks.brick_jobs.machines import LEVELS, REFERENCES, Machines
from inferbench_tasks.brick_jobs.queries import find
from inferbench_tasks.bricks.measure.levels import level_of
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.regression.changepoint import change_points
from inferbench_tasks.regression.machine_changes import RATE, corrected

#: The newest sessions of a setting that are looked at, and the settings, those that were begun last.
MOST_SESSIONS, MOST_SETTINGS = 60, 20


def drifts(db: PerfDB, device: str = "") -> list[dict[str, Any]]:
    """A row for each setting and host with sessions: the level of each over the host's first, and where it changed.
    ``host`` is None of sessions of which nobody knows whose they are, and of a PerfDB that never knew a host.

    ``device``: part of the processor's name. ``level_ratio``: 1.1 is a tenth slower than when its times began;
    ``references``: the same of each reference in the newest session; ``changes``: E-Divisive over the levels, at a
    false discovery rate of 1% over all settings that are told (``machine_changes``).
    """
    told = []
    known = machines.read(db)
    fields = {"setting_id": 1, "home": 1, "host": 1, "references_ns": 1, "setting": 1}
    levels = find(db, LEVELS, {}, fields, [("created_at", -1)])
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for level in levels:
        if device.lower() in level["setting"]["processor"].lower():
            setting_id = level.get("setting_id") or level["_id"]
            first[setting_id, known.of(known.home_of(level, setting_id))] = level
    for (setting_id, machine), level in [*first.items()][:MOST_SETTINGS]:
        where = _sessions_of(setting_id, machine, known)
        newest = find(db, REFERENCES, where, {}, [("measured_at", -1)], MOST_SESSIONS)
        if newest:
            level = to_plain(level) | {"host": known.host_of(level, setting_id)}
            sessions = [to_plain(one) for one in reversed(newest)]
            base_ns = level["references_ns"]
            ratios = [level_of(one["references_ns"], base_ns) for one in sessions]
            told.append((level, base_ns, sessions, ratios))
    found = corrected([ratios for *_, ratios in told])
    return [_row(*one, *found) for one in told]


def _sessions_of(setting_id: str, machine: str, known: Machines) -> dict[str, Any]:
    """Where a machine's sessions at a setting are: those of its data directories, and what names no host where that is
    its own, or where the machine is not known."""
    homes: list[str | None] = [*sorted(known.homes(machine))] if machine else []
    if known.of(known.home_of({}, setting_id)) == machine:
        homes += [None, ""]
    return {"setting_id": setting_id, "home": {"$in": homes}}


def _row(
    level: Mapping[str, Any],
    base_ns: Mapping[str, float],
    sessions: Sequence[Mapping[str, Any]],
    ratios: Sequence[float],
    alpha: float,
    permutations: int,
) -> dict[str, Any]:
    points = [
        {"session": one["session"], "measured_at": one["measured_at"], "level_ratio": ratio}
        for one, ratio in zip(sessions, ratios, strict=True)
    ]
    setting = level["setting"]
    changes = change_points(ratios, alpha, permutations)
    last = sessions[-1]["references_ns"]
    return {
        "device": setting["processor"],
        "host": level.get("host") or None,
        **{name: setting[name] for name in ("instruction_set", "cores", "threads", "runtime", "version")},
        "sessions": len(points),
        "newest_at": points[-1]["measured_at"],
        "level_ratio": points[-1]["level_ratio"],
        "references": {name: last[name] / ns for name, ns in base_ns.items()},
        "changes": [
            {
                "session": points[one.index]["session"],
                "measured_at": points[one.index]["measured_at"],
                "change_percent": (one.after / one.before - 1) * 100,
                "p_value": min(1.0, one.p_value * RATE / alpha),
            }
            for one in changes
        ],
        "points": points,
    }
