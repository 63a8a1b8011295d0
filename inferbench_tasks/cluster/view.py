"""What PerfDB says of many jobs, asked for once."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster


class ClusterView:
    """What some jobs went through, and all devices, at one moment; raises PerfDBError as ``Cluster`` does."""

    def __init__(self, cluster: Cluster, jobs: Collection[str]) -> None:
        self._cluster = cluster
        self._histories = cluster.histories(jobs)

    def history(self, job: str) -> tuple[int, frozenset[str]]:
        """(lost devices so far, what it avoids) of one of the jobs."""
        return self._histories.get(job, (0, frozenset()))

    def devices(self) -> list[Device]:
        """All registered devices, ordered by id."""
        return self._devices

    @cached_property
    def _devices(self) -> list[Device]:
        return self._cluster.devices()
