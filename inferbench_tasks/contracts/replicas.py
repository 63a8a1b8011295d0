"""Several servers of one model, each on a device of its own, and what stands before them."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.handles import Endpoint, Handle, ServerHandle


class Replica(Handle):
    """One of the servers. ``number``: from 1; ``cores``: those that it may run on, which are its device's."""

    number: int
    of: int
    device_id: str
    cores: tuple[int, ...]
    server: ServerHandle
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """As messages call it: ``Replica 2 of 3 (rack.cpu-4-7)``."""
        return f"Replica {self.number} of {self.of} ({self.device_id})"


class Balancer(Handle):
    """What hands requests to the replicas. ``cores``: those that it may run on; ``apart``: none of them a replica's."""

    kind: str
    policy: str
    version: str
    workers: int
    cores: tuple[int, ...]
    apart: bool
    server: ServerHandle

    @property
    def settings(self) -> dict[str, Any]:
        """What of it a figure depends on."""
        return {
            "kind": self.kind,
            "policy": self.policy,
            "version": self.version,
            "workers": self.workers,
            "cores": "own" if self.apart else "shared",
        }


def several(count: int, name: str | None) -> str | None:
    """What devices of several replicas are called together, ``2 x Intel Xeon``; None where the device tells no name."""
    return None if name is None else f"{count} x {name}"
