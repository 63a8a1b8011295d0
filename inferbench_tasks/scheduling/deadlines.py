"""When jobs with a deadline must be promoted to make it.

A job's own slack is not enough: two hundred nightly jobs with one deadline are late together if each waits for its own
last moment. So, per set of device types and in order of the deadlines (rounded down to ``SLOT_US``), the waiting work
that is due until a slot must fit before it: with c the sum of its device-seconds, m its longest estimate, k the healthy
devices of those types, it has to start at ``slot - safety * (c / k + m)``. (List scheduling ends within c/k + m:
Graham, Bounds on multiprocessing timing anomalies, 1969.) From then on all of it is promoted, earliest deadline first;
every placement lowers c, so that no more is promoted than needed.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush

from inferbench_tasks.scheduling.lanes import Entry
from inferbench_tasks.scheduling.model import to_us

SLOT_US = 60_000_000


def slot_of(deadline_s: float) -> int:
    """The slot of a deadline; a promotion holds for whole slots."""
    return to_us(deadline_s) // SLOT_US


def latest_start_us(slot: int, work_us: int, longest_us: int, devices: int, safety_milli: int) -> int:
    """When the work due until ``slot`` has to start."""
    return slot * SLOT_US - safety_milli * (work_us // devices + longest_us) // 1000


class _Slot:
    __slots__ = ("jobs", "longest", "work_us")

    def __init__(self) -> None:
        self.work_us = 0
        self.jobs = 0
        self.longest: list[tuple[int, str, Entry]] = []

    def longest_us(self) -> int:
        heap = self.longest
        while heap and not (heap[0][2].waiting and heap[0][2].est_us == -heap[0][0]):
            heappop(heap)
        return -heap[0][0] if heap else 0


class _Group:
    __slots__ = ("devices", "dirty", "latest", "not_before", "safety_milli", "slots", "starts")

    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}
        self.dirty = True
        self.devices = self.safety_milli = 0
        self.starts: list[int] = []
        self.latest: list[int] = []
        self.not_before = 0
        """Nothing is promoted earlier than this, whatever changed since the last full look."""

    def look(self, devices: int, safety_milli: int) -> None:
        """Each slot's latest start, of those that start before all later ones; the others never decide."""
        self.starts.clear()
        self.latest.clear()
        work = longest = 0
        for number in sorted(self.slots):
            slot = self.slots[number]
            work += slot.work_us
            longest = max(longest, slot.longest_us())
            start = latest_start_us(number, work, longest, devices, safety_milli)
            while self.starts and self.starts[-1] >= start:
                self.starts.pop()
                self.latest.pop()
            self.starts.append(start)
            self.latest.append(number)
        self.dirty, self.devices, self.safety_milli = False, devices, safety_milli
        self.not_before = self.starts[0]


class DeadlineBook:
    """The waiting work that is due, by device types and slot; recomputed only for what changed."""

    def __init__(self) -> None:
        self._groups: dict[frozenset[str], _Group] = {}

    def add(self, entry: Entry) -> None:
        spec = entry.spec
        assert spec.deadline_s is not None
        group = self._groups.get(spec.device_types)
        if group is None:
            group = self._groups[spec.device_types] = _Group()
        number = slot_of(spec.deadline_s)
        slot = group.slots.get(number)
        if slot is None:
            slot = group.slots[number] = _Slot()
        slot.work_us += entry.est_us * spec.n_devices
        slot.jobs += 1
        heappush(slot.longest, (-entry.est_us, spec.job_id, entry))
        group.dirty = True
        if group.devices:
            # More work brings every latest start forward by at most this; less never does.
            added = entry.est_us * spec.n_devices // group.devices + 1 + entry.est_us
            earlier = group.safety_milli * added // 1000 + 1
            group.not_before = min(group.not_before, number * SLOT_US) - earlier

    def remove(self, entry: Entry) -> None:
        spec = entry.spec
        assert spec.deadline_s is not None
        group = self._groups[spec.device_types]
        number = slot_of(spec.deadline_s)
        slot = group.slots[number]
        slot.work_us -= entry.est_us * spec.n_devices
        slot.jobs -= 1
        if not slot.jobs:
            del group.slots[number]
        group.dirty = True

    def horizon(self, types: frozenset[str], now_us: int, devices: int, safety_milli: int) -> int | None:
        """The last slot whose jobs are promoted now, None if there is none."""
        group = self._groups.get(types)
        if group is None or not group.slots or not devices:
            return None
        if group.devices != devices or group.safety_milli != safety_milli:
            group.look(devices, safety_milli)
        if now_us < group.not_before:
            return None
        if group.dirty:
            group.look(devices, safety_milli)
        due = bisect_right(group.starts, now_us)
        return group.latest[due - 1] if due else None

    def may_promote(self, now_us: int) -> bool:
        """False: nothing is promoted now. True: something may be."""
        return any(g.slots and (not g.devices or now_us >= g.not_before) for g in self._groups.values())
