"""Where the ranks of two hosts meet, and by which network interface."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from inferbench_tasks.errors import StageError

#: gloo listens and connects by the interface that this names; without it, by whatever the host's name leads to.
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True, slots=True)
class Meeting:
    """``node``: the number of this host; ``address``, ``port``: of the first host, where all ranks meet;
    ``own_address``: by which this host takes part.
    """

    node: int
    address: str
    port: int
    own_address: str

    def env(self) -> dict[str, str]:
        """What the ranks need so that they exchange over the network of that address, and no other."""
        return {GLOO_INTERFACE: interface_of(self.own_address)}


def interface_of(address: str) -> str:
    """The name of the network interface that has this address; StageError where none has."""
    import psutil

    for name, entries in psutil.net_if_addrs().items():
        # A link-local address has its interface behind a %.
        if any(entry.address.partition("%")[0] == address.partition("%")[0] for entry in entries):
            return str(name)
    raise StageError(f"No network interface of this host has the address {address}")


def free_port(address: str) -> int:
    """A port on which nobody listens there at this moment."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        return int(listener.getsockname()[1])
