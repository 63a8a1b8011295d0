"""The fence around devices: a stage works on them only while its job holds the lease."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.cluster.apart import own_part, place_of
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.cores import cpu_limit_cores
from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import HeldLease


@dataclass(frozen=True, slots=True)
class Holding:
    """What a job holds: the lease's token, and its devices on this host, that of this worker first.

    ``members``: the ids of all, also of those on other hosts. ``elsewhere``: which of these this is, from 1; 0: the
    job's own host. ``spare_cores``: where it holds several, the cores of this host that are no device's. ``nonce``:
    what no other lease ever has.
    """

    token: int
    devices: tuple[HeldDevice, ...]
    members: tuple[str, ...] = ()
    elsewhere: int = 0
    spare_cores: tuple[int, ...] = ()
    nonce: str = ""

    @property
    def lease(self) -> HeldLease:
        """What results are written under."""
        return HeldLease(self.members, self.nonce)

    def require(self, *, elsewhere: int) -> None:
        """LeaseLostError where a stage came to the wrong one of the job's hosts: its result would tell of that one."""
        if self.elsewhere != elsewhere:
            where = (
                f"other host {elsewhere} of its job" if elsewhere > 1 else "another host than its job's own"
            )
            where = where if elsewhere else "its job's own host"
            raise LeaseLostError(
                f"This stage belongs on {where}, and came to {self.devices[0].device_id}. Submit the job again."
            )

    @contextmanager
    def used(self) -> Iterator[None]:
        """A stage works on all devices: it and what it starts may run on the cores of each of them.

        A worker has its own device's cores only. What is started says on which devices, so that the worker of each of
        them can end it.
        """
        if len(self.devices) == 1:
            yield
            return
        before = os.sched_getaffinity(0)
        cores = {core for device in self.devices for core in device.cores}
        os.environ[settings.DEVICES] = ",".join(device.device_id for device in self.devices)
        try:
            if cores:
                os.sched_setaffinity(0, cores)
            yield
        finally:
            os.sched_setaffinity(0, before)
            os.environ.pop(settings.DEVICES, None)


@dataclass(frozen=True, slots=True)
class Fence:
    """``device_id``: the device of this worker; ``job``: the scheduler's name of the job."""

    device_id: str
    job: str

    def enter(self, db: PerfDB) -> Holding:
        """What the job holds; raises LeaseLostError if that is not this device with all others of its lease."""
        cluster = Cluster(db)
        device = cluster.get(self.device_id)
        lease = device.lease if device else None
        if device is None or lease is None or lease.job != self.job:
            holder = f"it is {lease.job}'s" if lease else "nobody holds it"
            raise LeaseLostError(
                f"This job does not hold device {self.device_id} ({holder}). To measure again, clear the job's tasks "
                "on its device from the first on, or start a new run."
            )
        names = [self.device_id, *(name for name in device.held_with if name != self.device_id)]
        devices = [device, *(cluster.get(name) for name in names[1:])]
        for name, member in zip(names, devices, strict=True):
            if member is None or member.lease is None or member.lease.nonce != lease.nonce:
                raise LeaseLostError(f"This job does not hold device {name} any more, with {self.device_id}.")
            if member.lease.state == "lost":
                raise LeaseLostError(f"What this job had on device {name} is gone: {member.lease.reason}")
        own = own_part(lease) or device.held_with
        here = [m for m in devices if m and m.device_id in own] if self.device_id in own else [device]
        return Holding(
            lease.token,
            tuple(_held(member) for member in here),
            device.held_with,
            elsewhere=place_of(lease, self.device_id),
            spare_cores=_spare(cluster, device.host) if len(device.held_with) > 1 else (),
            nonce=lease.nonce,
        )

    def left(self, db: PerfDB) -> HeldLease:
        """What a stage that cleans up writes a result under. It runs where the lease is lost too: then under none."""
        try:
            return self.enter(db).lease
        except LeaseLostError:
            return HeldLease((self.device_id,), nonce="")

    def superseded(self, db: PerfDB) -> bool:
        """Whether the job runs by now on other devices than this: what fails here tells nothing of that run."""
        holders = {d.device_id for d in Cluster(db).devices() if d.lease and d.lease.job == self.job}
        return bool(holders) and self.device_id not in holders

    def check(self, db: PerfDB, holding: Holding) -> None:
        """Before a stage's output is handed on: the lease is still the one that it began with."""
        if self.enter(db).nonce != holding.nonce:
            raise LeaseLostError(f"Device {self.device_id} was given to another run of this job meanwhile.")


def require_chosen(job: Mapping[str, Any], holding: Holding) -> None:
    """LeaseLostError where a job whose system was chosen was given another: its result would tell of that one.

    A worker that registered after the job began to wait is not among the devices that it avoids.
    """
    if (system := job.get("system")) is None or holding.elsewhere:
        return
    chosen = [system["id"]] if system["id"] else system["alike"]
    if others := [d.device_id for d in holding.devices if d.device_id not in chosen]:
        raise LeaseLostError(
            f"This job was given {', '.join(others)}, whose worker registered since it was submitted, and is for "
            f"{' or '.join(chosen)}. Submit it again."
        )


def _spare(cluster: Cluster, host: str) -> tuple[int, ...]:
    """As many as a CPU quota grants beyond the devices' cores: what runs on more is taken from theirs."""
    taken = {core for device in cluster.devices() if device.host == host for core in device.cores}
    if not taken:
        return ()
    limit, others = cpu_limit_cores(), [core for core in range(os.cpu_count() or 0) if core not in taken]
    return tuple(others if limit is None else others[: max(0, int(limit) - len(taken))])


def _held(device: Device) -> HeldDevice:
    return HeldDevice(
        device_id=device.device_id,
        device_type=device.device_type,
        host=device.host,
        cores=device.cores,
        gpu_index=device.gpu_index,
        cluster=device.cluster,
    )
