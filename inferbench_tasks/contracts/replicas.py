"""Several servers of one model, each on a device of its own, and what stands before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.contracts.handles import Endpoint, Handle, ServerHandle


class Replica(Handle):
    """One of the servers. ``number``: from 1; ``cores``: those that it may run on, which are its device's; ``host``:
    where each has one of its own, its name, else "".
    """

    number: int
    of: int
    device_id: str
    cores: tuple[int, ...]
    server: ServerHandle
    endpoint: Endpoint
    host: str = ""

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
    def own_cores(self) -> int:
        """How many cores that are no replica's it can use: each of its processes one."""
        return min(self.workers, len(self.cores)) if self.apart else 0

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


def balancing(protocol: str) -> str:
    """What a host has to be able to do where replicas that speak this stand on several of its devices."""
    return f"nginx over {protocol}"


def several(cores: Sequence[int], name: str | None, between: int = 0, hosts: int = 1) -> str | None:
    """What devices with so many cores each are called together, ``2 x Intel Xeon``; None where they tell no name.

    By it configurations are told apart, so it says what their number and their cores together do not: ``of 4 and 2
    cores`` of unlike ones, which are no two of three, and ``with 1 core for nginx`` of a balancer that can use so many
    cores (``between``) that are none of the devices'; one that shares theirs takes from the replicas. ``on 2 hosts``,
    where they are of so many (``hosts``).
    """
    if name is None:
        return None
    together = f"{len(cores)} x {name}"
    if len({*cores}) > 1:
        together += f" of {' and '.join(map(str, sorted(cores, reverse=True)))} cores"
    if between:
        together += f" with {between} core{'' if between == 1 else 's'} for nginx"
    if hosts > 1:
        together += f" on {hosts} hosts"
    return together
