"""What a host tells of itself, and what the second one tells of the way to the first."""

from __future__ import annotations

import platform
from typing import Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.link import LinkAround


class HostFacts(Handle):
    """``cores``: those that its ranks may use; ``devices``: those of it that the job holds."""

    host: str
    hardware: dict[str, Any]
    system: dict[str, Any]
    versions: dict[str, str | None]
    cores: float | None
    devices: tuple[HeldDevice, ...] = ()

    @classmethod
    def here(cls, devices: tuple[HeldDevice, ...] = ()) -> HostFacts:
        """Of this host, in a process that may use the cores that the ranks may."""
        from inferbench_tasks.monitors import environment

        hardware = environment.hardware()
        return cls(
            host=platform.node(),
            hardware=hardware,
            system=environment.system(),
            versions=environment.versions(),
            cores=environment.granted_cores(hardware),
            devices=devices,
        )


class SecondHost(Handle):
    """``exchanges``: (sent, arrived, answered, received) from the link's first measurement to its last, sent and
    received by this host's clock, see ``timing.two_clocks``.
    """

    facts: HostFacts
    link: LinkAround
    exchanges: tuple[tuple[int, int, int, int], ...]
