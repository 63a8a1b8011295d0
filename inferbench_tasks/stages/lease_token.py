"""The token of the lease that is on a device: by it who works there knows whether the device is its job's still."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.errors import InferBenchError


def token_of(device_id: str, data_dir: Path) -> int | None:
    """None where there is no lease, or nobody leases devices. PerfDBError where PerfDB can't be asked."""
    from inferbench_tasks.cluster.store import Cluster
    from inferbench_tasks.perfdb.store import PerfDB

    if not device_id:
        return None
    device = Cluster(PerfDB.connect(settings.perfdb_uri(), data_dir)).get(device_id)
    return device.lease.token if device and device.lease else None


def is_lost(device_id: str, token: int | None, data_dir: Path) -> bool:
    """Whether the device is another job's by now, that of the lease with this token had; no where nobody leases
    devices, and where PerfDB can't be asked.
    """
    if token is None:
        return False
    try:
        return token_of(device_id, data_dir) != token
    except InferBenchError:
        return False
