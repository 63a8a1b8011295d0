"""The devices as the policy sees them: those of one type on one host are one node, whose devices it counts from 0.

A device keeps its number as long as this scheduler lives, whatever comes and goes. Names of devices that leave this
scheduler (in leases, and in what a job avoids) are their ids, for another one may count them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from inferbench_tasks.cluster.apart import is_elsewhere
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.keeping import Kept
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.model import QueuedJob, device_name

State = Literal["ok", "quarantined", "down"]


class HostNodes:
    """Which device is which of a node's, and what the policy was told of each node.

    ``each_alone``: every device is a node of its own, as of policies that bind a job to a worker's queue.
    """

    def __init__(self, *, each_alone: bool) -> None:
        self._each_alone = each_alone
        self._members: dict[str, list[str]] = {}
        self._places: dict[str, tuple[str, int]] = {}
        self._states: dict[str, tuple[State, ...]] = {}

    def _learn(self, devices: Iterable[Device]) -> None:
        for device in devices:
            if device.device_id not in self._places:
                node = device.device_id if self._each_alone else f"{device.host}/{device.device_type}"
                members = self._members.setdefault(node, [])
                self._places[device.device_id] = (node, len(members))
                members.append(device.device_id)

    def place(self, device_ids: Iterable[str]) -> tuple[str, tuple[int, ...]]:
        """The node of these devices, and their numbers there."""
        places = [self._places[device_id] for device_id in device_ids]
        return places[0][0], tuple(number for _, number in places)

    def devices(self, node_id: str, numbers: Iterable[int]) -> tuple[str, ...]:
        """The ids of a node's devices."""
        return tuple(self._members[node_id][number] for number in numbers)

    def inward(self, job: QueuedJob, devices: Iterable[Device]) -> QueuedJob:
        """The job with the policy's names of the devices that it avoids beside their ids."""
        if not job.avoid:
            return job
        self._learn(device for device in devices if device.device_id in job.avoid)
        names = {device_name(*self._places[name]) for name in job.avoid if name in self._places}
        return replace(job, avoid=job.avoid | names)

    def outward(self, job: QueuedJob) -> QueuedJob:
        """The job with the ids of the devices that it avoids, and no other names."""
        if not job.avoid:
            return job
        ids = {device_name(*place): device_id for device_id, place in self._places.items()}
        return replace(job, avoid=frozenset(ids.get(name, name) for name in job.avoid))

    def changes(
        self, devices: Mapping[str, Device], now: float, kept: Kept | None = None
    ) -> Iterator[ev.Event]:
        """What the policy has to hear of the nodes, since it was last told; nothing is placed on what is kept."""
        # One that nobody here has seen alive is none of a node's devices: it may have been gone for years.
        self._learn(d for d in devices.values() if d.lease or d.present(TTL_S))
        for node, members in self._members.items():
            present = [devices.get(device_id) for device_id in members]
            states = tuple(_state(device, kept) for device in present)
            before = self._states.get(node)
            if states == before:
                continue
            gone = set(states) == {"down"}
            if gone and before is None and not any(d and d.lease for d in present):
                continue  # of a worker that nobody here has ever seen
            self._states[node] = states
            if before is None or not gone:
                kind = next((d.device_type for d in present if d), "cpu")
                yield ev.NodeUp(now, node, kind, len(members), tuple(members))
            if gone:
                yield ev.NodeDown(now, node)
                continue
            for number, (device, state) in enumerate(zip(present, states, strict=True)):
                if state != "ok":
                    reason = (
                        _reason(device, kept) if device and state == "quarantined" else "its worker is gone"
                    )
                    yield ev.HealthFailed(now, node, number, None, reason)

    def look_again(self, node_id: str) -> None:
        """Tell the policy of this node anew: it believes something else of its devices."""
        self._states.pop(node_id, None)

    def refused(self, node_id: str, number: int) -> None:
        """The policy was told that this device is unfit."""
        states = list(self._states.get(node_id, ()))
        if number < len(states):
            states[number] = "quarantined"
            self._states[node_id] = tuple(states)


def _state(device: Device | None, kept: Kept | None) -> State:
    if device is None or not device.present(TTL_S):
        return "down"
    is_kept = kept is not None and device.device_id in kept.device_ids
    return "quarantined" if is_kept or is_elsewhere(device) else device.health


def _reason(device: Device, kept: Kept | None) -> str:
    """Why no job of its host is placed on it."""
    if kept is not None and device.device_id in kept.device_ids:
        return kept.reason
    if device.lease is not None and is_elsewhere(device):
        return f"held beside {device.lease.members[0]}, for a job of that host"
    return device.reason
