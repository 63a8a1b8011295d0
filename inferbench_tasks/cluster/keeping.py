"""A free device that is kept for a job on two hosts, until one of another host is free as well.

The policy sees its own device alone, and gives each that becomes free to somebody else: where no two of two hosts are
ever free at once such a job would wait for ever. It is a reservation without backfilling, so it has an end: a device
is kept where the other one is expected to be free within as long as the job has waited, and no longer where it is late
by more than that. So it costs the cluster no more
than the job has paid, and whatever the others' lengths its turn comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from inferbench_tasks.cluster.apart import fits, pair
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.scheduling.model import QueuedJob


@dataclass(frozen=True, slots=True)
class Kept:
    """``device_id`` is kept for ``job``, which needs it with ``beside``."""

    job: str
    device_id: str
    beside: str

    @property
    def reason(self) -> str:
        """Why nothing is placed there, for people."""
        return f"kept for {self.job}, which waits for {self.beside} too"


def kept_for(specs: Iterable[QueuedJob], devices: Collection[Device], now: float) -> Kept | None:
    """What is kept for the first of the jobs that may have something kept; None where one of them need not wait."""
    ordered = sorted(specs, key=lambda spec: (-spec.priority, spec.submit_s, spec.job_id))
    if any(pair(spec, devices) is not None for spec in ordered):
        return None
    return next((kept for spec in ordered if (kept := _kept_for(spec, devices, now)) is not None), None)


def _kept_for(spec: QueuedJob, devices: Iterable[Device], now: float) -> Kept | None:
    able = [device for device in devices if fits(spec, device)]
    free = [device for device in able if device.lease is None]
    ends = sorted((d.lease.est_end_s, d.device_id, d) for d in able if d.lease is not None)
    for end_s, _, busy in ends:
        if end_s - now > now - spec.submit_s:
            return None
        if now - end_s > max(0.0, end_s - spec.submit_s):
            continue  # late by more than the job had waited when it was due: nobody knows its end any more
        for device in free:
            alone = [device, busy.model_copy(update={"lease": None})]
            if pair(spec, alone) is not None:
                return Kept(spec.job_id, device.device_id, busy.device_id)
    return None
