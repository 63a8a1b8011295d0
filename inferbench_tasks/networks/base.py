"""Networks by name, and how one is put between client and server.

with emulated("4g_lte", endpoint, folder) as shaped:
    ...  # load ``shaped`` instead of ``endpoint``
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from inferbench_tasks.analysis.catalogue import Row, read_table
from inferbench_tasks.errors import LoadError, UnknownKindError
from inferbench_tasks.stages.handles import Endpoint

#: The network as it is; nothing is emulated.
LAN = "lan"


class Network(Row):
    """One row of ``configs/networks.yaml``. Latency and jitter (standard deviation) are one-way.

    ``loss_ratio``: of the segments of 1,460 bytes. A lost segment is sent again after a round trip, and all
    behind it wait: what TCP's fast retransmission does to a connection.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")]
    latency_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    jitter_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    up_mbit_s: Annotated[float, Field(gt=0)] | None = None
    down_mbit_s: Annotated[float, Field(gt=0)] | None = None
    loss_ratio: Annotated[float, Field(ge=0, lt=0.5)] = 0


def networks() -> dict[str, Network]:
    """The emulated networks by name."""
    return {row.name: row for row in read_table("networks.yaml", Network)}


def network_names() -> tuple[str, ...]:
    """All that ``load.network`` may name."""
    return (LAN, *networks())


def find_network(name: str) -> Network | None:
    """None for ``lan``; UnknownKindError, which lists the names, for one that no row has."""
    if name == LAN:
        return None
    known = networks()
    if name not in known:
        raise UnknownKindError(
            f"Unknown network {name!r} at load.network; known: {', '.join(network_names())}"
        )
    return known[name]


@contextmanager
def emulated(name: str, endpoint: Endpoint, folder: Path, seed: int = 1) -> Iterator[Endpoint]:
    """The endpoint as it is reached through that network; itself for ``lan``.

    A shaping proxy runs in a process of its own meanwhile (its log: ``folder/network.log``); it ends with
    this process. Raises LoadError if it does not start.
    """
    network = find_network(name)
    if network is None:
        yield endpoint
        return
    with shaping_proxy(network, endpoint.host, endpoint.port, folder / "network.log", seed) as port:
        yield endpoint.model_copy(update={"host": "127.0.0.1", "port": port})


@contextmanager
def shaping_proxy(network: Network, host: str, port: int, log_path: Path, seed: int = 1) -> Iterator[int]:
    """A proxy to host:port with that network's figures; its port on 127.0.0.1."""
    order = {"network": network.model_dump(), "host": host, "port": port, "seed": seed}
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
    try:
        line = child.stdout.readline()
        if not line:
            end = log_path.read_text(errors="replace").strip().split("\n")[-1]
            raise LoadError(f"The network proxy for {network.name} did not start: {end or 'it said nothing'}")
        yield int(line)
    finally:
        child.stdin.close()  # the proxy ends when its standard input does
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
