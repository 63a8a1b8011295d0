"""``inferbench up --listen``: where the gateway listens, checked before anything starts."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.answers import LAST_OFFSET
from inferbench_tasks.provider.joining.plan import Plan
from inferbench_tasks.provider.system.config import BROKER_URL

GATEWAY = "gateway"
#: Of four in a row.
USUAL_PORT = 7440
_FORM = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[A-Za-z0-9.-]+))(?::(?P<port>[0-9]{1,5}))?")
_ALL = ("0.0.0.0", "::")  # noqa: S104 - compared with, and what the user asked for


@dataclass(frozen=True)
class Listening:
    """``address``: of this host, or all of them. ``names``: by which workers may call it."""

    address: str
    port: int
    names: Sequence[str]

    @property
    def url(self) -> str:
        """What workers join."""
        host = self.names[0]
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    def command(self, home: Path, dags: Path, submissions: Path) -> list[str]:
        """What starts the gateway of the system in ``home``; its plan is written down for it."""
        Plan(self.address, self.port, self.names, str(dags), str(submissions)).write(home)
        return [sys.executable, "-m", "inferbench_tasks.provider.joining.gateway", str(home)]


def address_and_port(text: str, name: str = "--listen") -> tuple[str, int]:
    """Of ``ADDRESS``, ``ADDRESS:PORT``, ``[IPv6]:PORT`` or a name; InputError, which says ``name``, for others."""
    match = _FORM.fullmatch(text)
    port = int(match["port"] or USUAL_PORT) if match else 0
    if match is None or not 0 < port <= 65535 - LAST_OFFSET:
        raise InputError(
            f"{name} {text!r} is no address; allowed are ADDRESS[:PORT] and [IPv6][:PORT], PORT up to "
            f"{65535 - LAST_OFFSET}, {USUAL_PORT} unless said: four ports from that one on are used."
        )
    return match["six"] or match["four"], port


def listening(text: str) -> Listening:
    """Where ``text`` says; InputError where it can't be listened."""
    address, port = address_and_port(text)
    for variable in (BROKER_URL, settings.PERFDB_URI):
        if os.environ.get(variable):
            raise InputError(
                f"--listen is for the servers that `up` starts, and {variable} names another: workers connect to yours "
                "by themselves (docs/how-to/worker-on-another-host.md)."
            )
    resolved = _resolved(address, text)
    names = _names(address, resolved)
    for number in range(port, port + LAST_OFFSET + 1):
        _require_free(address, number, text)
    return Listening(address, port, names)


def _resolved(address: str, text: str) -> str:
    """The address that a name or an address stands for; InputError where it is none that one host has for itself."""
    allowed = "allowed are addresses and names of this host, 0.0.0.0 and [::] for all of them"
    try:
        resolved = str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0]).partition("%")[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"--listen {text[:100]!r} is nowhere ({error}); {allowed}.") from None
    parsed = ipaddress.ip_address(resolved)
    if _numeric(address) and not _whole(address):
        raise InputError(f"--listen {text!r} is short for {resolved}; {allowed}, written out.")
    if parsed.is_multicast or resolved in _broadcasts():
        raise InputError(f"--listen {text!r} is an address of many hosts; {allowed}.")
    return resolved


def _numeric(address: str) -> bool:
    """Whether no name server is asked for it: also ``0``, ``127.1``, ``0x7f.1``."""
    try:
        socket.getaddrinfo(address, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


def _whole(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _broadcasts() -> set[str]:
    import psutil

    found = {
        a.broadcast
        for of_one in psutil.net_if_addrs().values()
        for a in of_one
        # An interface that was given none tells its own address in its place.
        if a.broadcast and a.broadcast != a.address
    }
    return found | {"255.255.255.255"}


def _names(address: str, resolved: str) -> list[str]:
    names = [address, socket.gethostname(), socket.getfqdn()]
    if resolved in _ALL:
        import psutil

        families = (socket.AF_INET, socket.AF_INET6)
        found = [
            a.address.partition("%")[0]
            for of_one in psutil.net_if_addrs().values()
            for a in of_one
            if a.family in families
        ]
        names = [*sorted(found, key=lambda a: a in ("127.0.0.1", "::1")), *names[1:]]
    return list(dict.fromkeys(names))


def _require_free(address: str, port: int, text: str) -> None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise InputError(
            f"--listen {text}: {address}, port {port}, can't be used here: {error.strerror or error}. Four free "
            "ports of an address of this host are needed."
        ) from None
