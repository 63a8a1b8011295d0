"""Where the processes of an installation listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import psutil

from inferbench_tasks.doctor.base import Advice, Installation, name_of


def ports(place: Installation) -> Iterator[Advice]:
    """Every listening socket is loopback's."""
    good = True
    addresses = set()
    for process in place.processes:
        for host, port in listening(process):
            if (host, port) in addresses:
                continue
            addresses.add((host, port))
            if not ipaddress.ip_address(host).is_loopback:
                good = False
                yield Advice(
                    check="ports", level="finding",
                    what=f"{name_of(process)} listens on {host}, port {port}: other machines reach it",
                    remedy=f"close port {port} by a firewall, or end the process",
                )  # fmt: skip
    if good:
        yield Advice(check="ports", level="ok", what=f"{len(addresses)} listening port(s), all on loopback")


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Address and port of each TCP socket on which a process listens."""
    try:
        sockets = process.net_connections("tcp")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
    return [(s.laddr.ip, s.laddr.port) for s in sockets if s.status == psutil.CONN_LISTEN]
