"""Who had which device when: of each run the times at which its stages held devices, all by PerfDB's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pydantic import BaseModel

from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB

#: A run that began so long before the time that is looked at may still be on its device in it.
LONGEST = timedelta(days=2)
#: So many runs are looked at, the newest.
MOST_RUNS = 2000


class Stay(BaseModel):
    """A run on a device: from its first stage there to the end of its last. ``ended_at`` is None while it is there."""

    device: str
    run: str
    submission: str
    user: str
    login: str | None
    state: str
    """The kind of its verdict; how its execution stands while it has none."""
    started_at: datetime
    ended_at: datetime | None


class Timeline(NamedTuple):
    """``unseen_before``: runs that began before it are not there, since later ones are ``MOST_RUNS``; None: all are."""

    stays: list[Stay]
    unseen_before: datetime | None


def stays(db: PerfDB, since: datetime) -> Timeline:
    """All that reach into the time since then, by device and time.

    A run that nobody ended and whose devices are another's by now ended when last something was heard of it.
    """
    of_stages = ("stage", "started_at", "ended_at", "devices")
    fields = (
        "status",
        "verdict",
        "judgement",
        "submission",
        "updated_at",
        "started_at",
        *(f"stages.{of}" for of in of_stages),
    )
    found_runs = db.collection("runs").find(
        {"$or": [{"started_at": {"$gte": since - LONGEST}}, {"status": "running"}]},
        dict.fromkeys(fields, 1),
        sort=[("started_at", -1)],
        limit=MOST_RUNS + 1,
    )
    *runs, oldest = [*found_runs] or [None]
    unseen = _utc(runs[-1]["started_at"]) if oldest and len(runs) >= MOST_RUNS else None
    if oldest and unseen is None:
        runs.append(oldest)
    held_by = {device.device_id: device.lease.run_id for device in Cluster(db).devices() if device.lease}
    found = [stay for run in runs for stay in _of_run(run, held_by) if (stay.ended_at or since) >= since]
    return Timeline(sorted(found, key=lambda stay: (stay.device, stay.started_at)), unseen)


def _of_run(run: Mapping[str, Any], held_by: Mapping[str, str]) -> Iterator[Stay]:
    submission, run_id = run["submission"], str(run["_id"])
    verdict = Verdict.of(run)
    state = verdict.kind if verdict else str(run["status"])
    groups = list(_in_turn(run.get("stages") or ()))
    for group in groups:
        first, last = group[0], group[-1]
        for device in first["devices"]:
            there = group is groups[-1] and held_by.get(device) == run_id  # between two stages as well
            # A clock that was set back meanwhile makes no stay end before it began.
            ended_at = (
                None
                if there
                else max(_utc(first["started_at"]), _utc(last.get("ended_at") or run["updated_at"]))
            )
            yield Stay(
                device=device,
                run=run_id,
                submission=submission["name"],
                user=submission["user"],
                login=submission.get("login"),
                state=state,
                started_at=_utc(first["started_at"]),
                ended_at=ended_at,
            )


def _in_turn(stages: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Stages that follow each other on the same devices; a stage that comes again is of another try."""
    group: list[Mapping[str, Any]] = []
    for stage in sorted((of for of in stages if of.get("devices")), key=lambda of: of["started_at"]):
        again = any(of["stage"] == stage["stage"] for of in group)
        if group and (again or group[0]["devices"] != stage["devices"]):
            yield group
            group = []
        group.append(stage)
    if group:
        yield group


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
