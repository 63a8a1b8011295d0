"""How a run goes while it goes, for who does not share the folder of the host that it runs on.

Told for whoever watches, and for nothing else: what can't be written at once is dropped, and the server forgets a
run's progress an hour after its last word.
"""

from __future__ import annotations

import logging
import math
import time
from datetime import datetime
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.perfdb.store import PerfDB

log = logging.getLogger(__name__)

COLLECTION = "progress"
#: Of one run the newest are kept: some minutes of a load, at one a second.
MOST_EVENTS = 200
#: So long one write may take.
PATIENCE_S = 2.0


def tell(db: PerfDB, run_id: str, events: list[dict[str, Any]]) -> bool:
    """Add events, in the order of time; False where they could not be written."""
    change = {
        "$push": {"events": {"$each": events, "$slice": -MOST_EVENTS}},
        # Both clocks at one moment: those of two hosts may be far apart.
        "$set": {"sent": time.time()},
        "$currentDate": {"at": True},
    }
    try:
        with pymongo.timeout(PATIENCE_S):
            db.collection(COLLECTION).update_one({"_id": run_id}, change, upsert=True)
    except (PyMongoError, PerfDBError) as error:
        log.info("progress of %s was not told: %s", run_id, error)
        return False
    return True


def told(db: PerfDB, run_id: str) -> list[dict[str, Any]]:
    """The events of a run in the order of time, by the clock of PerfDB's server; [] of one that told nothing here.

    ``id``: the same whenever an event is read. A worker of another host writes them: what is no event is left out.
    """
    found = db.collection(COLLECTION).find_one({"_id": run_id})
    events = found.get("events") if found else None
    if found is None or not isinstance(events, list):
        return []
    at, sent = found.get("at"), found.get("sent")
    shift_s = at.timestamp() - float(sent or 0) if isinstance(at, datetime) and _is_number(sent) else 0.0
    mine = [event for event in events if isinstance(event, dict) and _is_number(event.get("t"))]
    shifted = (
        {**event, "id": f"{event['t']} {event.get('stage')} {event.get('event')}", "t": event["t"] + shift_s}
        for event in mine
    )
    return sorted(shifted, key=lambda event: event["t"])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
