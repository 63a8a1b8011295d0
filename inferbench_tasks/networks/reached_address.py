"""Under which address other hosts reach this one."""

from __future__ import annotations

import os
import socket

from inferbench_tasks.errors import InputError
from inferbench_tasks.networks.links.invitation import numeric

ADDRESS = "INFERBENCH_LOAD_ADDRESS"


def reached_address(what: str = "A load from another host", field: str = "load.from") -> str:
    """As ``INFERBENCH_LOAD_ADDRESS`` says; else the only IPv4 address of a network interface that is up.

    InputError, of ``what`` needs it and the submission's ``field``, where there is none, or several: the wrong one may
    lead past the network that is meant.
    """
    if named := os.environ.get(ADDRESS, "").strip():
        return numeric(named)
    import psutil  # here: every plan reads this module

    stats = psutil.net_if_stats()
    addresses = sorted(
        entry.address
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and stats[name].isup and not entry.address.startswith("127.")
    )
    if len(addresses) != 1:
        found = f"several: {', '.join(addresses)}" if addresses else "none"
        raise InputError(
            f"{what} needs the address of this one, and it has {found}; set {ADDRESS} for its worker",
            field=field,
        )
    return addresses[0]
