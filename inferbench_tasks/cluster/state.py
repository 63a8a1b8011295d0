"""The cluster as people see it: devices, leases, queues in expected seconds, and why each job waits."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import TTL_S, WAITING, Cluster
from inferbench_tasks.cluster.unreadable import skipped, why
from inferbench_tasks.perfdb.store import PerfDB


class WaitingJob(BaseModel):
    """A job that waits for a device, and why it waits. ``user`` as its submission says, ``login`` who started it."""

    job: str
    user: str
    login: str | None = None
    priority: int
    expected_s: float
    waited_s: float
    device_types: list[str]
    devices: int = 1
    """How many of one host it needs at once."""
    attempt: int
    why: str


class DeviceState(BaseModel):
    """A device, its job if it has one, and what waits for devices of its type."""

    device_id: str
    device_type: str
    name: str
    host: str
    state: str
    """free, busy, starting, quarantined, gone, stopped"""
    reason: str
    job: str | None
    run_id: str | None
    held_with: list[str]
    """The devices that its job holds at once, if they are several: the first one's worker runs the stages."""
    expected_left_s: float | None
    """Of its job; negative: it takes longer than expected."""
    token: int
    heartbeat_age_s: float
    capabilities: dict[str, Any]


class QueueState(BaseModel):
    """The jobs that wait for one type of device, all its devices together (late binding)."""

    device_type: str
    waiting: int
    expected_s: float
    """Sum of their expected run times."""
    devices: int
    """Present and healthy."""


class ClusterState(BaseModel):
    """The whole state of the cluster at one moment."""

    devices: list[DeviceState]
    queues: list[QueueState]
    waiting: list[WaitingJob]
    unreadable: list[str] = []
    """What in PerfDB can't be read and is not among these, in words."""


def cluster_state(db: PerfDB) -> ClusterState:
    """The state of the cluster whose workers and schedulers use this PerfDB."""
    cluster = Cluster(db)
    devices = cluster.devices()
    jobs, unreadable = cluster.waiting()
    waiting = []
    for job in jobs:
        try:
            waiting.append(WaitingJob.model_validate(job))
        except ValidationError as error:
            name = str(job.get("job")) if isinstance(job, dict) else "unknown"
            unreadable.append(skipped(f"The waiting job {name[:200]} (collection {WAITING})", why(error)))
    types = sorted({d.device_type for d in devices} | {t for w in waiting for t in w.device_types})
    return ClusterState(
        devices=[_device(d) for d in devices],
        queues=[_queue(t, devices, waiting) for t in types],
        waiting=waiting,
        unreadable=unreadable,
    )


def _device(device: Device) -> DeviceState:
    lease, left_s = device.lease, device.expected_left_s
    return DeviceState(
        device_id=device.device_id,
        device_type=device.device_type,
        name=device.name,
        host=device.host,
        state=_state(device),
        reason=device.reason,
        job=lease.job if lease else None,
        run_id=(lease.run_id or None) if lease else None,
        held_with=list(device.held_with) if len(device.held_with) > 1 else [],
        expected_left_s=None if left_s is None else round(left_s, 3),
        token=device.token,
        heartbeat_age_s=round(device.age_s, 3),
        capabilities=device.capabilities,
    )


def _state(device: Device) -> str:
    if device.stopped:
        return "stopped"
    if device.age_s > TTL_S:
        return "gone"
    if device.lease:
        return "busy" if device.lease.state == "confirmed" else "starting"
    return "quarantined" if device.health == "quarantined" else "free"


def _queue(device_type: str, devices: list[Device], waiting: list[WaitingJob]) -> QueueState:
    mine = [w for w in waiting if device_type in w.device_types]
    usable = [d for d in devices if d.device_type == device_type and d.present(TTL_S) and d.health == "ok"]
    return QueueState(
        device_type=device_type,
        waiting=len(mine),
        expected_s=round(sum(w.expected_s for w in mine), 3),
        devices=len(usable),
    )
