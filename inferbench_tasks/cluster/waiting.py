"""Why a job waits, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import QueuedJob, device_name
from inferbench_tasks.scheduling.order import waiting_in_order

#: More than this is counted, not listed.
LISTED = 200


def waiting_jobs(
    index: Index, devices: Mapping[str, Device], now: float, held_back: str | None = None
) -> tuple[list[dict[str, Any]], int]:
    """(the first waiting jobs as the policy would take them, how many wait): job, what is known of it, why.

    ``held_back``: why none is given a device now.
    """
    specs = waiting_in_order(index, now)
    rows = [
        {
            "job": spec.job_id,
            "user": spec.tenant,
            "priority": spec.priority,
            "expected_s": round(spec.est_s, 3),
            "waited_s": round(max(0.0, now - spec.submit_s), 3),
            "device_types": sorted(spec.device_types),
            "attempt": spec.attempt,
            "why": held_back or why(spec, place, devices, now),
        }
        for place, spec in enumerate(specs[:LISTED])
    ]
    return rows, len(specs)


def waiting_by_login(index: Index) -> Counter[str]:
    """How many jobs of each login have no device."""
    return Counter(entry.spec.tenant for entry in index.jobs.values() if entry.run is None)


def why(spec: QueuedJob, place: int, devices: Mapping[str, Device], now: float) -> str:
    """What keeps the job from a device."""
    types = " or ".join(sorted(spec.device_types))
    suited = [d for d in devices.values() if d.device_type in spec.device_types]
    if not suited:
        return f"no device of type {types} was ever registered; start one: inferbench worker --device ..."
    there = [d for d in suited if d.present(TTL_S)]
    if not there:
        return f"no worker of a device of type {types} is running ({', '.join(d.device_id for d in suited)})"
    fit = [d for d in there if d.health == "ok"]
    if not fit:
        reasons = "; ".join(f"{d.device_id}: {d.reason}" for d in there)
        return f"quarantined: {reasons}"
    free_of = [
        d for d in fit if d.device_id not in spec.avoid and device_name(d.device_id, 0) not in spec.avoid
    ]
    if not free_of:
        return f"its run was lost on {', '.join(d.device_id for d in fit)}, and no other device is there"
    busy = [d for d in free_of if d.lease]
    if len(busy) < len(free_of):
        return "a device is free: next decision" if place == 0 else f"{place} job(s) come first"
    first = min(max(0.0, d.lease.est_end_s - now) for d in busy if d.lease)
    ahead = f"{place} job(s) come first, " if place else ""
    return f"{ahead}{len(busy)} of {len(free_of)} device(s) busy, the next expected free in {first:.0f} s"
