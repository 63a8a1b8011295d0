"""How a network is put between client and server.

with emulated("4g_lte", endpoint, folder) as shaped:
    ...  # load ``shaped`` instead of ``endpoint``

By ``tc netem`` where the kernel and the permissions allow it, else by a proxy in user space;
``folder/network.json`` says which, and why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks import netem, pings
from inferbench_tasks.networks.network import LAN, Network, find_network, network_names, networks

__all__ = [
    "LAN", "Network", "emulated", "find_network", "network_names", "networks", "shaped_path", "shaping_proxy"
]  # fmt: skip

#: How a run's network was made, beside its other files.
RECORD_FILE = "network.json"
#: The proxy's own delay is that of pings over a link of this latency, less the latency and a direct ping.
_CALIBRATION_MS = 1.0
_CALIBRATION_PINGS = 80
#: More than that is not the proxy's but a busy machine's, and may be gone in the next second: it stays.
_OWN_DELAY_LIMIT_MS = 1.0


@contextmanager
def emulated(name: str, endpoint: Endpoint, folder: Path, seed: int = 1) -> Iterator[Endpoint]:
    """The endpoint as it is reached through that network; itself for ``lan``.

    What shapes it ends with this process; its log: ``folder/network.log``. Raises LoadError if it does not start.
    """
    network = find_network(name)
    if network is None:
        yield endpoint
        return
    with shaped_path(network, endpoint.host, endpoint.port, folder / "network.log", seed) as path:
        (folder / RECORD_FILE).write_text(json.dumps(path["about"]))
        yield endpoint.model_copy(update={"host": path["host"], "port": path["port"]})


@contextmanager
def shaped_path(
    network: Network, host: str, port: int, log_path: Path, seed: int = 1
) -> Iterator[dict[str, Any]]:
    """{host, port, about}: an address from which host:port is reached through the network."""
    reason = netem.unavailable()
    if reason is None:
        with netem.namespace(network) as path:
            order: dict[str, Any] = {
                "network": _PLAIN,
                "host": host,
                "port": port,
                "seed": seed,
                "netns": path.name,
            }
            with _proxy({**order, "listen": path.server}, network.name, log_path) as child:
                record = {"emulation": "netem", "namespace": path.name}
                yield {"host": path.server, "port": child["port"], "about": record}
        return
    with shaping_proxy(network, host, port, log_path, seed) as shaped:
        about: dict[str, Any] = {
            "emulation": "proxy",
            "not_netem": reason,
            "own_delay_ms": shaped.own_delay_ms,
        }
        yield {"host": "127.0.0.1", "port": int(shaped), "about": about}


class ProxyPort(int):
    """A proxy's port on 127.0.0.1; ``own_delay_ms``: what it adds to a round trip, taken off its latencies."""

    own_delay_ms: float = 0.0


@contextmanager
def shaping_proxy(
    network: Network, host: str, port: int, log_path: Path, seed: int = 1
) -> Iterator[ProxyPort]:
    """A proxy to host:port with that network's figures."""
    with pings.echo() as echo_port:
        order: dict[str, Any] = {"network": network.model_dump(), "host": host, "port": port, "seed": seed}
        over = _PLAIN | {"latency_ms": _CALIBRATION_MS}
        order["calibration"] = {"port": echo_port, "network": over}
        with _proxy(order, network.name, log_path) as child:
            direct = pings.quick_ms(echo_port, _CALIBRATION_PINGS)
            through = pings.quick_ms(child["calibration"], _CALIBRATION_PINGS)
            own = min(max(0.0, through - direct - 2 * _CALIBRATION_MS), _OWN_DELAY_LIMIT_MS)
            child["say"](json.dumps({"own_delay_ms": own}))
            proxy_port = ProxyPort(child["port"])
            proxy_port.own_delay_ms = own
            yield proxy_port


_PLAIN: dict[str, Any] = Network(name="plain", source="nothing is shaped", date="2024").model_dump()


@contextmanager
def _proxy(order: dict[str, Any], name: str, log_path: Path) -> Iterator[dict[str, Any]]:
    """What the proxy told when it was there, and ``say``, which tells it something and waits for its answer."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "inferbench_tasks.networks.proxy", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert child.stdin is not None and child.stdout is not None
    stdin, stdout = child.stdin, child.stdout

    def answer() -> dict[str, Any]:
        line = stdout.readline()
        if not line:
            end = log_path.read_text(errors="replace").strip().split("\n")[-1]
            raise LoadError(f"The network proxy for {name} did not start: {end or 'it said nothing'}")
        document: dict[str, Any] = json.loads(line)
        return document

    def say(text: str) -> None:
        stdin.write(text.encode() + b"\n")
        stdin.flush()
        answer()

    try:
        yield {**answer(), "say": say}
    finally:
        stdin.close()  # the proxy ends when its standard input does
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        stdout.close()
