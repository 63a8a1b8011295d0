"""Devices and leases in PerfDB: each lease lies in its device's document, so a device never has two.

All changes are one atomic update of one document, under a condition (compare-and-set), and may be repeated:
several schedulers, and a mongod that is killed and comes back, are harmless. A lease of several devices is
taken and given back in one transaction over their documents. Ages are taken by the database's clock, so the
hosts' clocks need not agree.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pymongo.client_session import ClientSession

from inferbench_tasks.cluster.device import Device, Lease, LeaseState, Outcome
from inferbench_tasks.cluster.device_in_part import device_in_part
from inferbench_tasks.cluster.unreadable import skipped, why
from inferbench_tasks.cluster.versions import own, unfit
from inferbench_tasks.perfdb import under_lease
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB

DEVICES = under_lease.DEVICES
WAITING = "waiting_jobs"
HISTORY = "job_history"
#: A worker that is silent for so long is gone, and its lease with it.
TTL_S = 15.0
#: A device that may be leased.
_FREE = {"lease": None, "health": "ok", "stopped": False}


class _History(BaseModel):
    attempt: int
    avoid: frozenset[str]


class Cluster:
    """The devices of one PerfDB. ``patience_s``: how long to wait for a server that is away."""

    def __init__(self, db: PerfDB, patience_s: float = PATIENCE_S) -> None:
        self.db = db
        self.patience_s = patience_s
        self._grants_gangs: bool | None = None

    # -- workers ------------------------------------------------------------------------------------

    def register(self, device: Device) -> None:
        """Enter a device, or enter it again; a lease that it has stays."""
        foreign = {"device_id", "age_s", "token", "lease", "lease_age_s", "last"}
        fixed = device.model_dump(exclude=foreign, mode="json")
        fixed["versions"] = own().model_dump()
        set_: dict[str, Any] = {key: {"$literal": value} for key, value in fixed.items()}
        set_ |= {
            "heartbeat_at": "$$NOW",
            "token": {"$ifNull": ["$token", 0]},
            "lease": {"$ifNull": ["$lease", None]},
            "last": {"$ifNull": ["$last", None]},
        }
        self._write(DEVICES, {"_id": device.device_id}, [{"$set": set_}], upsert=True)

    def beat(self, device_id: str, *, health: str, reason: str, queue_s: float) -> None:
        """The worker is alive, and this is how its device is."""
        set_ = {"health": health, "reason": {"$literal": reason}, "queue_s": queue_s, "stopped": False}
        self._write(DEVICES, {"_id": device_id}, [{"$set": {**set_, "heartbeat_at": "$$NOW"}}])

    def accuse(self, device_id: str, reason: str) -> bool:
        """Have its worker quarantine a device, with that reason; "" takes it back. Whether there is such a device."""
        return self._write(DEVICES, {"_id": device_id}, {"$set": {"accused": reason}})

    def stop(self, device_id: str) -> None:
        """Say that the worker of a device ends on purpose."""
        self._write(DEVICES, {"_id": device_id}, {"$set": {"stopped": True}})

    def forget(self, device_id: str) -> bool:
        """Remove a device without a lease; whether it was there."""
        return bool(self._do(lambda c: c.delete_one({"_id": device_id, "lease": None}).deleted_count))

    def answer(self, device_id: str, token: int, state: LeaseState, reason: str = "") -> bool:
        """The worker's word on a lease that was granted: confirmed or refused."""
        where = {"_id": device_id, "lease.token": token, "lease.state": "granted"}
        return self._write(DEVICES, where, {"$set": {"lease.state": state, "lease.reason": reason}})

    def lose(self, device_id: str, token: int, reason: str) -> bool:
        """The worker's word that what a job had on its device is gone."""
        where = {"_id": device_id, "lease.token": token, "lease.state": "confirmed"}
        return self._write(DEVICES, where, {"$set": {"lease.state": "lost", "lease.reason": reason}})

    # -- leases -------------------------------------------------------------------------------------

    @property
    def grants_gangs(self) -> bool:
        """Whether several devices can be leased at once: a standalone mongod has no transactions."""
        if self._grants_gangs is None:
            self._grants_gangs = self.db.has_transactions()
        return self._grants_gangs

    def grant(
        self,
        device_id: str,
        job: str,
        *,
        spec: Mapping[str, Any],
        run_id: str,
        now_s: float,
        est_end_s: float,
        others: Sequence[str] = (),
    ) -> Lease | None:
        """The lease, or None if one of the devices is not free and healthy any more: all of them or none.

        ``others``: further devices, which one is of another host the last; the worker of ``device_id`` runs the stages.
        """
        nonce, members = uuid.uuid4().hex, [device_id, *others]
        lease = {
            "job": job, "nonce": nonce, "granted_s": now_s, "est_end_s": est_end_s, "state": "granted",
            "reason": "", "spec": dict(spec), "run_id": run_id, "members": members,
        }  # fmt: skip
        if others:
            self._grant_gang(members, lease)
        else:
            self._write(DEVICES, {"_id": device_id, **_FREE}, _leased({"$add": ["$token", 1]}, lease))
        device = self.get(device_id)
        return device.lease if device and device.lease and device.lease.nonce == nonce else None

    def _grant_gang(self, members: Sequence[str], lease: Mapping[str, Any]) -> None:
        """One token above all that these devices ever had, in all their documents or in none."""

        def take(session: ClientSession) -> None:
            devices = self.db.collection(DEVICES)
            rows = list(
                devices.find({"_id": {"$in": members}}, {"token": 1, "lease.nonce": 1}, session=session)
            )
            if any((row.get("lease") or {}).get("nonce") == lease["nonce"] for row in rows):
                return  # an attempt before this one was committed, and its answer was lost
            token = 1 + max((row["token"] for row in rows), default=0)
            free = {"_id": {"$in": members}, **_FREE}
            taken = devices.update_many(free, _leased(token, lease), session=session)
            if taken.matched_count != len(members):
                session.abort_transaction()

        self.db.transaction(take, "leasing devices together", self.patience_s)

    def release(self, device_id: str, token: int, outcome: Outcome, others: Sequence[str] = ()) -> bool:
        """End a lease on all its devices; False if somebody else did.

        The outcome tells other schedulers what became of the job.
        """
        nonce = uuid.uuid4().hex
        last = {"token": token, "outcome": outcome, "nonce": nonce}
        change = {"$set": {"lease": None, "last": last}}
        if others:
            where = {"_id": {"$in": [device_id, *others]}, "lease.token": token}
            changed = bool(
                self.db.transaction(
                    lambda session: self.db.collection(DEVICES).update_many(where, change, session=session),
                    "giving devices back together",
                    self.patience_s,
                ).matched_count
            )
        else:
            changed = self._write(DEVICES, {"_id": device_id, "lease.token": token}, change)
        if changed:
            return True
        # The answer of an attempt that was carried out may have been lost.
        device = self.get(device_id)
        return device is not None and device.last is not None and device.last.nonce == nonce

    # -- looking ------------------------------------------------------------------------------------

    def get(self, device_id: str) -> Device | None:
        """The device of this id; None where it was never registered."""
        devices = self._devices({"_id": device_id})
        return devices[0] if devices else None

    def devices(self) -> list[Device]:
        """All registered devices, ordered by id."""
        return self._devices({})

    def _devices(self, where: dict[str, Any]) -> list[Device]:
        ages = {
            "age_s": _seconds_since("$heartbeat_at"),
            "lease_age_s": {"$ifNull": [_seconds_since("$lease.granted_at"), 0]},
        }
        pipeline = [{"$match": where}, {"$set": ages}, {"$sort": {"_id": 1}}]
        documents = self._do(lambda c: list(c.aggregate(pipeline)))
        return [_device({**document, "device_id": str(document["_id"])}) for document in documents]

    # -- what waits, and what a job went through ----------------------------------------------------

    def publish_waiting(
        self,
        scheduler: str,
        jobs: Sequence[Mapping[str, Any]],
        total: int,
        by_login: Mapping[str, int] | None = None,
    ) -> None:
        """What a scheduler's jobs wait for, in their order, for people to see."""
        counts = [{"login": login, "jobs": count} for login, count in (by_login or {}).items()]
        change = [
            {
                "$set": {
                    "jobs": {"$literal": [dict(j) for j in jobs]},
                    "total": total,
                    "by_login": {"$literal": counts},
                    "at": "$$NOW",
                }
            }
        ]
        self._write(WAITING, {"_id": scheduler}, change, upsert=True)

    def waiting(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The waiting jobs that living schedulers published, in their order; and what can't be read, in words."""
        published = [_list(document, "jobs") for document in self._waiting("jobs")]
        return [job for jobs, _ in published for job in jobs], [why for _, why in published if why]

    def waiting_of(self, login: str) -> int:
        """How many jobs of a login wait for a device, by what living schedulers published; what can't be read is none,
        and told in the log."""
        rows = [row for document in self._waiting("by_login") for row in _list(document, "by_login")[0]]
        mine = [row.get("jobs") for row in rows if isinstance(row, dict) and row.get("login") == login]
        return sum(count for count in mine if isinstance(count, int))

    def _waiting(self, field: str) -> list[dict[str, Any]]:
        """That field of what living schedulers published."""
        age_s = _seconds_since("$at")
        recent = {"$expr": {"$and": [{"$ne": [age_s, None]}, {"$lt": [age_s, TTL_S]}]}}
        documents: list[dict[str, Any]] = self._do(lambda c: list(c.find(recent, {field: 1})), WAITING)
        return documents

    def remember(self, job: str, attempt: int, avoid: Sequence[str]) -> None:
        """A job lost a device: how often, and which it avoids from now on."""
        change = {"$set": {"attempt": attempt, "avoid": sorted(avoid)}}
        self._write(HISTORY, {"_id": job}, change, upsert=True)

    def history(self, job: str) -> tuple[int, frozenset[str]]:
        """(lost devices so far, what it avoids)."""
        return self.histories([job]).get(job, (0, frozenset()))

    def histories(self, jobs: Collection[str]) -> dict[str, tuple[int, frozenset[str]]]:
        """The same of those of these jobs that have lost a device; a document that can't be read is none."""
        documents = self._do(lambda c: list(c.find({"_id": {"$in": list(jobs)}})), HISTORY)
        histories = {}
        for document in documents:
            try:
                history = _History.model_validate(document)
            except ValidationError as error:
                skipped(f"What became of job {document['_id']} (collection {HISTORY})", why(error))
                continue
            histories[str(document["_id"])] = history.attempt, history.avoid
        return histories

    def _do(self, operation: Any, collection: str = DEVICES) -> Any:
        return self.db.retrying(
            lambda: operation(self.db.collection(collection)), f"the {collection}", self.patience_s
        )

    def _write(self, collection: str, where: Any, change: Any, *, upsert: bool = False) -> bool:
        result = self._do(lambda c: c.update_one(where, change, upsert=upsert), collection)
        return bool(result.matched_count or result.upserted_id)


def _device(fields: Mapping[str, Any]) -> Device:
    """As it is stored; one that can't be read keeps nobody from all others."""
    try:
        return _fit(Device.model_validate(fields))
    except ValidationError as error:
        return device_in_part(fields, error)


def _list(document: Mapping[str, Any], field: str) -> tuple[list[Any], str]:
    """What a scheduler published, and ""; nothing of what is no list, and that it was skipped."""
    if isinstance(published := document.get(field) or [], list):
        return published, ""
    whose = f"What scheduler {document['_id']} published (collection {WAITING})"
    return [], skipped(whose, f"{field} is no list")


def _fit(device: Device) -> Device:
    """The device, in quarantine if its worker's versions are not ours: each would misunderstand the other."""
    reason = unfit(device.versions, own()) if device.present(TTL_S) else ""
    return device.model_copy(update={"health": "quarantined", "reason": reason}) if reason else device


def _seconds_since(moment: str) -> dict[str, Any]:
    """Of a field of the document, by the database's clock; null where it is not there, or no date."""
    age_s = {"$divide": [{"$subtract": ["$$NOW", moment]}, 1000]}
    return {"$cond": [{"$eq": [{"$type": moment}, "date"]}, age_s, None]}


def _leased(token: Any, lease: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The update that gives a device this lease with that token (a number, or an expression)."""
    stamp = {"token": "$token", "granted_at": "$$NOW"}
    return [
        {"$set": {"token": token}},
        {"$set": {"lease": {"$mergeObjects": [{"$literal": dict(lease)}, stamp]}}},
    ]
