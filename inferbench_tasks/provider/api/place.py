"""When a job's devices are expected to be free for it, from what holds them and what waits before it."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from inferbench_tasks.cluster.state import ClusterState, DeviceState

#: What a device does that a job can be given sooner or later.
_USABLE = ("free", "busy", "starting")


class Place(BaseModel):
    """What stands before jobs on the devices of their type. Seconds are expectations, not promises: the scheduler's
    order also goes by each login's fair share.
    """

    device_types: list[str]
    #: Present and healthy.
    devices: int
    #: So many of one host and type its jobs need at once.
    devices_at_once: int = 1
    #: So many of its jobs can run at the same time.
    jobs_at_once: int
    #: Waiting jobs of the same or a higher priority.
    jobs_before: int
    #: Until enough devices of a host are expected to be free for its first job; None where no host has as many.
    wait_s: float | None
    #: A job on these devices takes longer than expected already: ``wait_s`` is the least, nobody knows when it ends.
    overdue: bool = False


class _Device:
    """Seconds until it is expected to be free; ``overdue``: that moment is past."""

    def __init__(self, state: DeviceState) -> None:
        left_s = state.expected_left_s if state.expected_left_s is not None else 0.0
        self.free_in_s = max(0.0, left_s)
        self.overdue = state.state != "free" and left_s <= 0.0

    @property
    def order(self) -> tuple[float, bool]:
        return self.free_in_s, self.overdue


def place_of(cluster: ClusterState, types: frozenset[str], at_once: int, priority: int) -> Place | None:
    """The place of jobs that need ``at_once`` devices of one host, of one of these types. None where the cluster has no
    devices of ours: another executor takes jobs in turns.
    """
    if not cluster.devices:
        return None
    groups: dict[tuple[str, str], list[_Device]] = defaultdict(list)
    for device in cluster.devices:
        if device.state in _USABLE:
            groups[device.host, device.device_type].append(_Device(device))
    before = [w for w in cluster.waiting if types & set(w.device_types) and w.priority >= priority]
    for job in before:
        # What waits is taken by whichever devices are free first; what fits on no host stands in nobody's way.
        if taken := _first_free(groups, frozenset(job.device_types), job.devices):
            free_in_s, overdue = taken[-1].free_in_s + job.expected_s, any(d.overdue for d in taken)
            for one in taken:
                one.free_in_s, one.overdue = free_in_s, overdue
    ours = [devices for (_, of), devices in groups.items() if of in types]
    first = _first_free(groups, types, at_once)
    return Place(
        device_types=sorted(types),
        devices=sum(map(len, ours)),
        devices_at_once=at_once,
        jobs_at_once=sum(len(devices) // at_once for devices in ours),
        jobs_before=len(before),
        wait_s=round(first[-1].free_in_s, 1) if first else None,
        overdue=any(one.overdue for one in first),
    )


def worst(places: Iterable[Place | None]) -> Place | None:
    """The place where one waits longest: at the end of time where there are no such devices."""

    def order(place: Place) -> tuple[float, bool]:
        return math.inf if place.wait_s is None else place.wait_s, place.overdue

    return max((place for place in places if place), key=order, default=None)


def together_s(lengths_s: Sequence[float], at_once: int) -> float:
    """How long jobs of these lengths take where so many run at the same time: the shortest first, as the scheduler
    takes them, each where one ends first. No job is divided: of fewer jobs than there are places it is the longest.
    """
    ends_s = [0.0] * at_once
    for length_s in sorted(lengths_s):
        heapq.heapreplace(ends_s, ends_s[0] + length_s)
    return max(ends_s)


def _first_free(
    groups: dict[tuple[str, str], list[_Device]], types: frozenset[str], at_once: int
) -> list[_Device]:
    """The devices of one host and type that are all free first, the last one last; none where no host has as many."""
    able = [
        sorted(devices, key=lambda one: one.order)[:at_once]
        for (_, of), devices in groups.items()
        if of in types and len(devices) >= at_once
    ]
    return min(able, key=lambda taken: (taken[-1].free_in_s, any(d.overdue for d in taken)), default=[])
