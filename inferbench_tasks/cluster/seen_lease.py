"""A lease as its devices' documents show it: of one device, or of several that are held together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inferbench_tasks.cluster.device import Device, Lease, LeaseState
from inferbench_tasks.cluster.store import TTL_S

#: The state of a lease is the first of these that one of its devices has.
_WORST: tuple[LeaseState, ...] = ("lost", "refused", "granted", "confirmed")


@dataclass(frozen=True, slots=True)
class SeenLease:
    """``lease`` has the state of all its devices together: confirmed once each of them is."""

    lease: Lease
    devices: tuple[Device, ...]

    @property
    def whole(self) -> bool:
        """False: the documents were read while it was taken or given back."""
        return len(self.devices) == len(self.lease.members)

    @property
    def lead(self) -> str:
        """The device whose worker runs the job's stages."""
        return self.lease.members[0]

    @property
    def age_s(self) -> float:
        """Seconds since it was granted, by the database's clock."""
        return max(device.lease_age_s for device in self.devices)

    def lost(self) -> dict[str, str]:
        """The devices whose worker is gone, or has lost what the job had there, with the reasons."""
        reasons = {}
        for device in self.devices:
            if device.lease is not None and device.lease.state == "lost":
                reasons[device.device_id] = device.lease.reason
            elif not device.present(TTL_S):
                reasons[device.device_id] = f"the worker of {device.device_id} is gone"
        return reasons

    def refused(self) -> dict[str, str]:
        """The devices that are not fit, with the reasons."""
        return {d.device_id: d.lease.reason for d in self.devices if d.lease and d.lease.state == "refused"}

    def unanswered(self) -> list[str]:
        """The devices whose worker has not answered yet."""
        return [d.device_id for d in self.devices if d.lease and d.lease.state == "granted"]


def leases_in(devices: Iterable[Device]) -> dict[str, SeenLease]:
    """All leases of these devices, by nonce, each with its devices in the lease's order."""
    parts: dict[str, list[Device]] = {}
    for device in devices:
        if device.lease is not None:
            parts.setdefault(device.lease.nonce, []).append(device)
    return {nonce: _together(group) for nonce, group in parts.items()}


def _together(devices: list[Device]) -> SeenLease:
    members = devices[0].held_with
    devices = sorted(devices, key=lambda device: members.index(device.device_id))
    leases = [device.lease for device in devices if device.lease is not None]
    state = min((lease.state for lease in leases), key=_WORST.index)
    lease = leases[0].model_copy(update={"state": state, "members": members})
    return SeenLease(lease, tuple(devices))
