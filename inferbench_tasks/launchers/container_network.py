"""A network of its own for each container: it reaches nobody, and only this machine reaches it.

An internal bridge with one member. That there is no way out is the work of the engine's firewall, so an engine that
runs with ``--iptables=false`` leaves one; of this machine a container reaches what listens on all addresses. The
server is asked at its own address there, so that no proxy and no published port stands in the measured path, only a
veth pair and the bridge. ``INFERBENCH_CONTAINER_NETWORK=host``
leaves containers in the host's network instead: for engines that can make no other.
"""

from __future__ import annotations

import os
from typing import Any

from inferbench_tasks.errors import InputError, ServerError

NETWORK = "INFERBENCH_CONTAINER_NETWORK"
KINDS = ("own", "host")


def kind() -> str:
    """``own`` or ``host``; InputError for another setting."""
    value = os.environ.get(NETWORK) or "own"
    if value not in KINDS:
        raise InputError(f"{NETWORK}={value[:40]!r}; allowed: {', '.join(KINDS)}")
    return value


def create(engine: Any, name: str, labels: dict[str, str]) -> None:
    """Make the network. ServerError, with the way out, where the engine can't."""
    import docker

    try:
        engine.networks.create(name, driver="bridge", internal=True, labels=labels)
    except docker.errors.APIError as error:
        raise ServerError(
            f"The Docker engine can't make a network for the container: {error.explanation or error}. "
            f"{NETWORK}=host puts containers into the host's network."
        ) from error


def address(container: Any, name: str) -> str:
    """The container's address in its network; "" once it has ended."""
    networks = container.attrs["NetworkSettings"]["Networks"]
    return str(networks.get(name, {}).get("IPAddress") or "")


def remove(engine: Any, label: str) -> None:
    """Remove the networks with that label; their containers are gone."""
    import docker

    for network in engine.networks.list(filters={"label": label}):
        try:
            network.remove()
        except docker.errors.NotFound:
            continue  # removed meanwhile
