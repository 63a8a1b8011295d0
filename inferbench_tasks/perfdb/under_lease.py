"""What is written under a lease: nothing, once its job has lost it.

A lease lies in the documents of its devices. Who writes under one changes these documents in the same transaction, so
that of such a write and the lease's end one comes first: a write that comes second finds another lease or none, and one
that is under way is done or undone before the lease ends. To read the documents would not do: MongoDB lets a
transaction through whose reads have become old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from inferbench_tasks.errors import LeaseLostError

#: The collection of the devices, each with its lease.
DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class HeldLease:
    """What a stage writes its result under: the ids of all devices of its job, and their lease's ``nonce``.

    Not its token: those of a device that was forgotten and registered again begin anew.
    """

    device_ids: tuple[str, ...]
    nonce: str

    def claim(self, devices: Collection[dict[str, Any]], session: ClientSession | None) -> None:
        """Count a write in the lease, on each device; LeaseLostError where one of them is under it no more."""
        where: Mapping[str, Any] = {
            "_id": {"$in": [*self.device_ids]},
            "lease.nonce": self.nonce,
            "lease.state": {"$ne": "lost"},
        }
        held = devices.update_many(where, {"$inc": {"lease.writes": 1}}, session=session).matched_count
        if held < len(self.device_ids):
            raise LeaseLostError(
                f"This run does not hold {', '.join(self.device_ids)} any more, so it stores no result. Its job is run "
                "again by the scheduler, or says why not."
            )
