"""When and where a job that needs several devices can start: the reservation of EASY backfilling.

Lifka, The ANL/IBM SP Scheduling System, 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001: the first job that does
not fit gets a reservation at the earliest time at which enough devices are expected to be free (the shadow time);
others may use those devices until then, and those beyond its need (the extra ones) for as long as they like.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from inferbench_tasks.scheduling.model import QueuedJob, usable_devices
from inferbench_tasks.scheduling.nodes import Node


@dataclass(frozen=True, slots=True)
class Shadow:
    """From ``start_s`` on, ``extra`` of the node's devices are expected to be free beyond the job's need."""

    start_s: float
    node_id: str
    extra: int


#: Devices that a proposal of the same decision uses, and its expected end.
Used = tuple[tuple[int, ...], float]


def shadow_on(
    node: Node, free: Sequence[int], used: Sequence[Used], job: QueuedJob, now: float
) -> Shadow | None:
    """The shadow time of a job on one node, None if it never fits there. A run that is late is expected to end now."""
    n = job.n_devices
    if node.usable < n:
        return None
    if used or job.avoid:
        return _shadow_by_device(node, free, used, job, now)
    missing = n - len(free)
    start_s = max(now, node.ends_s[missing - 1]) if missing > 0 else now
    return Shadow(start_s, node.node_id, len(free) + bisect_right(node.ends_s, start_s) - n)


def _shadow_by_device(
    node: Node, free: Sequence[int], used: Sequence[Used], job: QueuedJob, now: float
) -> Shadow | None:
    allowed = set(usable_devices(node.node_id, node.fit(), job.avoid))
    if len(allowed) < job.n_devices:
        return None
    runs: list[Used] = [(e.run.devices, e.run.est_end_s) for e in node.running.values() if e.run]
    ends = [max(now, end) for devices, end in [*runs, *used] for device in devices if device in allowed]
    ends = sorted([*ends, *(now for device in free if device in allowed)])
    start_s = ends[job.n_devices - 1]
    return Shadow(start_s, node.node_id, bisect_right(ends, start_s) - job.n_devices)
