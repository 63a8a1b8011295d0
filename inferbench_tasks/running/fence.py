"""The fence around a device: a stage works on it only while its job holds the lease."""

from __future__ import annotations

from dataclasses import dataclass

from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.store import PerfDB


@dataclass(frozen=True, slots=True)
class Fence:
    """``device_id``: the device of this worker; ``job``: the scheduler's name of the job."""

    device_id: str
    job: str

    def enter(self, db: PerfDB) -> int:
        """The lease's token; raises LeaseLostError if the job does not hold this device."""
        device = Cluster(db).get(self.device_id)
        lease = device.lease if device else None
        if lease is None or lease.job != self.job:
            holder = f"it is {lease.job}'s" if lease else "nobody holds it"
            raise LeaseLostError(
                f"This job does not hold device {self.device_id} ({holder}). To measure again, clear the job's tasks "
                "on its device from the first on, or start a new run."
            )
        return lease.token

    def check(self, db: PerfDB, token: int) -> None:
        """Before anything is reported: the lease is still the one that the stage began with."""
        if self.enter(db) != token:
            raise LeaseLostError(f"Device {self.device_id} was given to another run of this job meanwhile.")
