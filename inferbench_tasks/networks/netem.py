"""``tc netem`` between client and server, in a network namespace of our own.

A veth pair leads into the namespace: what the client sends leaves through the host's end (shaped as ``up``),
the answers through the namespace's end (shaped as ``down``). In the namespace listens our proxy, without any
delay of its own; it passes on to the server over loopback. So the kernel's own TCP meets delay, jitter, rate
and loss.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath

from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.network import Network

_CLONE_NEWNET = 0x40000000
#: Where the kernel's namespaces have their names.
NAMED = FilePath("/run/netns")
#: Ours: what tells it from others, the process namespace of its maker, and the maker's id there.
_OURS = re.compile(r"ib-(?P<tag>[0-9a-f]{4})-(?P<space>\d+)-(?P<pid>\d+)")
#: Packets that may wait in a direction; netem's own default would drop what a large answer needs.
_LIMIT = 100_000


@dataclass(frozen=True)
class Path:
    """``host`` is the client's end, ``server`` the address in the namespace ``name``."""

    name: str
    host: str
    server: str


@cache
def unavailable() -> str | None:
    """Why it can't be used here, found out by doing it; None if it can."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"{' and '.join(missing)} (package iproute2) not installed"
    probe = Network(name="probe", latency_ms=1, source="probe", date="2024")
    try:
        with namespace(probe):
            return None
    except LoadError as error:
        return str(error)


@contextmanager
def namespace(network: Network) -> Iterator[Path]:
    """A namespace behind a shaped pair of interfaces; LoadError if it can't be made. Gone afterwards."""
    unique = os.urandom(2)
    name, tag = f"ib-{unique.hex()}-{_process_namespace()}-{os.getpid()}", unique.hex()
    here, there = f"ibh{tag}", f"ibn{tag}"
    # Link-local, a network of four addresses: two of them are ours.
    base = f"169.254.{unique[0]}."
    first = unique[1] & 0xFC
    path = Path(name, f"{base}{first + 1}", f"{base}{first + 2}")
    inside = ["-n", name]
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        for where, device, address in (([], here, path.host), (inside, there, path.server)):
            _run("ip", *where, "addr", "add", f"{address}/30", "dev", device)
            # One packet is one segment: a loss takes 1,460 bytes and not 64 KiB.
            _run("ip", *where, "link", "set", device, "up", "gso_max_segs", "1")
        _run("ip", *inside, "link", "set", "lo", "up")
        _run("tc", "qdisc", "add", "dev", here, "root", *qdisc(network, network.up_mbit_s))
        _run("tc", *inside, "qdisc", "add", "dev", there, "root", *qdisc(network, network.down_mbit_s))
        yield path
    finally:
        for command in (("ip", "link", "del", here), ("ip", "netns", "del", name)):
            subprocess.run(command, capture_output=True, check=False)


def left_behind(named: FilePath = NAMED) -> list[str]:
    """The names of namespaces whose maker is gone: a process that is killed takes nothing with it.

    Of another container that shares the names nobody here can tell which processes live; those are left alone.
    """
    import psutil  # not with the stages' facts, which every task of Airflow reads

    names = sorted(os.listdir(named)) if named.is_dir() else []
    ours = [match for name in names if (match := _OURS.fullmatch(name))]
    here = _process_namespace()
    return [m[0] for m in ours if m["space"] == here and not psutil.pid_exists(int(m["pid"]))]


def remove(name: str) -> str:
    """Remove one of ``left_behind``, with its interfaces; why it could not be, "" where it was."""
    match = _OURS.fullmatch(name)
    if match is None:
        return "it is none of ours"
    inside = ["ip", "-n", name, "link", "del", f"ibn{match['tag']}"]
    try:
        # The host's end goes with it, even where something in the namespace still lives.
        subprocess.run(inside, capture_output=True, check=False)
        _run("ip", "netns", "del", name)
    except (LoadError, OSError) as error:
        return str(error)
    return ""


def _process_namespace() -> str:
    """What this process's ids are of: in another container the same number is another process."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def qdisc(network: Network, mbit_s: float | None) -> list[str]:
    """The arguments of ``tc`` that emulate one direction."""
    words = ["netem", "limit", str(_LIMIT), "delay", f"{network.latency_ms}ms"]
    if network.jitter_ms:
        words += [f"{network.jitter_ms}ms", "distribution", "normal"]
    if network.loss_ratio:
        words += ["loss", f"{network.loss_ratio * 100}%"]
    if mbit_s:
        words += ["rate", f"{mbit_s}mbit"]
    return words


def listener(name: str, address: str) -> socket.socket:
    """A listening socket in that namespace; this thread comes back from there. OSError if it may not go."""
    with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{name}", "rb") as target:
        _enter(target.fileno())
        try:
            return socket.create_server((address, 0), backlog=1024)
        finally:
            _enter(home.fileno())


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run(*command: str) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        output = (process.stderr or process.stdout).strip().replace("\n", " ")
        raise LoadError(f"netem: `{' '.join(command)}`: {output}")
