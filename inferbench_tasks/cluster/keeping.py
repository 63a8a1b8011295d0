"""A free device that is kept for a job on several hosts, until those of the other hosts are free as well.

The policy sees its own device alone, and gives each that becomes free to somebody else: where no devices of so many
hosts are ever free at once such a job would wait for ever. It is a reservation without backfilling, so it has an end: a
device is kept where the last other one is expected to be free within as long as the job has waited, and no longer where
that is late by more. So it costs the cluster no more than the job has paid, and whatever the others' lengths its turn
comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from inferbench_tasks.cluster.apart import fits, together
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.scheduling.model import QueuedJob


@dataclass(frozen=True, slots=True)
class Kept:
    """``device_ids`` are kept for ``job``, which needs them with ``beside``."""

    job: str
    device_ids: tuple[str, ...]
    beside: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why nothing is placed there, for people."""
        return f"kept for {self.job}, which waits for {', '.join(self.beside)} too"


def kept_for(specs: Iterable[QueuedJob], devices: Collection[Device], now: float) -> Kept | None:
    """What is kept for the first of the jobs that may have something kept; None where one of them need not wait."""
    ordered = sorted(specs, key=lambda spec: (-spec.priority, spec.submit_s, spec.job_id))
    if any(together(spec, devices) is not None for spec in ordered):
        return None
    return next((kept for spec in ordered if (kept := _kept_for(spec, devices, now)) is not None), None)


def _kept_for(spec: QueuedJob, devices: Iterable[Device], now: float) -> Kept | None:
    able = [device for device in devices if fits(spec, device)]
    free = [device for device in able if device.lease is None]
    names = [device.device_id for device in free]
    ends = sorted((d.lease.est_end_s, d.device_id, d) for d in able if d.lease is not None)
    awaited: list[Device] = []
    for end_s, _, busy in ends:
        if end_s - now > now - spec.submit_s:
            return None
        if now - end_s > max(0.0, end_s - spec.submit_s):
            continue  # late by more than the job had waited when it was due: nobody knows its end any more
        one = busy.model_copy(update={"lease": None})
        awaited = [*awaited, one] if spec.n_elsewhere > 1 else [one]
        chosen = together(spec, [*free, *awaited], names) or ()
        if kept := tuple(name for name in chosen if name in names):
            return Kept(spec.job_id, kept, tuple(name for name in chosen if name not in names))
    return None
