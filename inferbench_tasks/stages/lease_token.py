"""The token of the lease that is on a device: by it who works there knows whether the device is its job's still."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks import settings


def token_of(device_id: str, data_dir: Path) -> int | None:
    """None where there is no lease, or nobody leases devices. PerfDBError where PerfDB can't be asked."""
    from inferbench_tasks.cluster.store import Cluster
    from inferbench_tasks.perfdb.store import PerfDB

    if not device_id:
        return None
    device = Cluster(PerfDB.connect(settings.perfdb_uri(), data_dir)).get(device_id)
    return device.lease.token if device and device.lease else None
