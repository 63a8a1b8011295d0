"""A host for a test: a network namespace with an address and a clock of its own, and a wire of a known rate to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks import netem
from inferbench_tasks.networks.network import Network

#: So far is CLOCK_MONOTONIC ahead on such a host: a clock of two hosts that were started at different times.
AHEAD_S = 1000
_WIRE = Network(name="wire", source="test", date="2024")


@dataclass(frozen=True)
class HostNamespace:
    """``address`` is that of the host, ``near`` that of this machine on the wire to it."""

    name: str
    address: str
    near: str

    def command(self, words: Sequence[str]) -> list[str]:
        """The command as it runs there: in its network, with its clock."""
        there = ["ip", "netns", "exec", self.name, "unshare", "--time", "--monotonic", str(AHEAD_S), "--fork"]
        return [*there, "--kill-child", *words]

    def python(self, *words: str) -> list[str]:
        """``python`` there, with these arguments."""
        return self.command([sys.executable, *words])


@contextmanager
def host_namespace(mbit_s: float, delay_ms: float = 0.0) -> Iterator[HostNamespace]:
    """A host behind a wire of that rate; skips, with the reason, where none can be made.

    The rate is the kernel's token bucket, each way; a delay takes netem, which not every kernel has.
    """

    def shaped(network: Network, rate: float | None) -> list[str]:
        if delay_ms:
            return ["netem", "delay", f"{delay_ms}ms", "rate", f"{mbit_s}mbit", "limit", "100000"]
        return ["tbf", "rate", f"{mbit_s}mbit", "burst", "32kbit", "latency", "50ms"]

    if reason := missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netem, "qdisc", shaped)
        try:
            namespace = netem.namespace(_WIRE)
            path = namespace.__enter__()
        except LoadError as error:
            pytest.skip(f"no host can be made of a network namespace: {error}")
    try:
        yield HostNamespace(path.name, path.server, path.host)
    finally:
        namespace.__exit__(None, None, None)


def wire(first: HostNamespace, other: HostNamespace, number: int) -> None:
    """A wire between the hosts of two namespaces; each reaches the other's address through it. ``number``: of several
    wires at once, from 0.
    """
    tag = other.name.split("-")[1]
    at = 4 * number
    ends = ((first, f"ibx{tag}", f"10.213.7.{at + 1}"), (other, f"iby{tag}", f"10.213.7.{at + 2}"))
    (_, one, _), (_, two, _) = ends
    words = [
        "link", "add", one, "netns", first.name, "type", "veth", "peer", "name", two, "netns", other.name,
    ]  # fmt: skip
    subprocess.run(["ip", *words], check=True, capture_output=True)
    for (host, device, address), (far, _, through) in zip(ends, reversed(ends), strict=True):
        for command in (
            ["addr", "add", f"{address}/30", "dev", device],
            ["link", "set", device, "up"],
            ["route", "add", f"{far.address}/32", "via", through],
        ):
            subprocess.run(["ip", "-n", host.name, *command], check=True, capture_output=True)


def missing() -> str | None:
    """Why no host can be made of namespaces here."""
    try:
        probe = subprocess.run(
            ["unshare", "--net", "--time", "--monotonic", "1", "--fork", "true"],
            capture_output=True,
            text=True,
            check=False,
        )
        subprocess.run(["ip", "-V"], capture_output=True, check=True)
    except FileNotFoundError as error:
        return f"hosts of namespaces need {error.filename} (Debian: apt-get install iproute2 util-linux)"
    if probe.returncode:
        return f"hosts of namespaces need root: {probe.stderr.strip()}"
    return None
