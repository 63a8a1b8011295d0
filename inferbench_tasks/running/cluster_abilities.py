"""What this installation and its cluster can do: also whether a host has as many devices as a job needs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.abilities import InstalledAbilities
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.waiting import too_few
from inferbench_tasks.errors import PerfDBError, StorageError
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.finding import Finding


@dataclass(frozen=True)
class ClusterAbilities(InstalledAbilities):
    """``devices``: those that have a worker, asked for when a job needs several; none: the cluster is not known."""

    devices: Callable[[], Sequence[Device]]

    def findings(self, spec: JobBase) -> Sequence[Finding]:
        """Also that no host has so many devices; a job of one device waits for one."""
        findings = [*super().findings(spec)]
        count = spec.needed_devices()
        if count > 1 and (devices := self.devices()):
            wanted = spec.needed_device()
            types = wanted.detail or wanted.kind
            suited = [
                d for d in devices if d.device_type == types or (types == "gpu" and d.gpu_index is not None)
            ]
            if message := too_few(suited, count, types):
                findings.append(Finding((spec.devices_field,), message))
        return findings


def of_cluster(db: PerfDB) -> ClusterAbilities:
    """Those of the cluster whose devices are in this PerfDB."""
    return ClusterAbilities(cache(lambda: _with_worker(db)))


def of_cluster_here(data_dir: Path) -> ClusterAbilities:
    """Those of the cluster that this data directory or ``INFERBENCH_PERFDB_URI`` belongs to; nothing is started."""

    def look() -> Sequence[Device]:
        if settings.perfdb_uri() is None and not embedded.status(data_dir)["running"]:
            return ()
        try:
            with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
                return _with_worker(db)
        except (PerfDBError, StorageError):
            return ()  # it is away: what the cluster has is not known, and the job waits with the reason

    return ClusterAbilities(cache(look))


def _with_worker(db: PerfDB) -> Sequence[Device]:
    return tuple(device for device in Cluster(db, patience_s=3.0).devices() if not device.stopped)
