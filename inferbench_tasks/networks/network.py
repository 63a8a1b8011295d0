"""A network's figures, by name from ``configs/networks.yaml`` or spelled out in the submission."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from inferbench_tasks.catalogue import Row, read_table
from inferbench_tasks.errors import UnknownKindError

#: The network as it is; nothing is emulated.
LAN = "lan"
#: ``custom:latency_ms=20,loss_ratio=0.01``: a network that no row has.
CUSTOM = "custom:"


class Network(Row):
    """One row of ``configs/networks.yaml``. Latency and jitter (standard deviation) are one-way.

    ``loss_ratio``: of the segments of 1,460 bytes. In the proxy a lost segment is sent again after a round trip, and
    all behind it wait: what TCP's fast retransmission does to a connection. Under netem TCP itself does.
    """

    name: Annotated[str, Field(pattern=r"^(custom:.*|[a-z0-9][a-z0-9_]*)$")]
    latency_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    jitter_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    up_mbit_s: Annotated[float, Field(gt=0)] | None = None
    down_mbit_s: Annotated[float, Field(gt=0)] | None = None
    loss_ratio: Annotated[float, Field(ge=0, lt=0.5)] = 0

    @model_validator(mode="after")
    def _losses_take_time(self) -> Network:
        if self.loss_ratio and not self.latency_ms:
            raise ValueError(
                "loss_ratio needs latency_ms: a lost segment costs a round trip, which would take no time"
            )
        return self


FIGURES = ("latency_ms", "jitter_ms", "up_mbit_s", "down_mbit_s", "loss_ratio")


def networks() -> dict[str, Network]:
    """All emulated networks, by their names."""
    return {row.name: row for row in read_table("networks.yaml", Network)}


def network_names() -> tuple[str, ...]:
    """All names that ``load.network`` may have."""
    return (LAN, *networks())


def find_network(name: str) -> Network | None:
    """None for ``lan``; UnknownKindError, which lists the names, for one that no row has."""
    if name == LAN:
        return None
    if name.startswith(CUSTOM):
        return _custom(name)
    known = networks()
    if name not in known:
        raise UnknownKindError(
            f"Unknown network {name!r} at load.network; known: {', '.join(network_names())}, "
            f"{CUSTOM}latency_ms=...,jitter_ms=...,up_mbit_s=...,down_mbit_s=...,loss_ratio=..."
        )
    return known[name]


def custom_problem(name: str) -> str | None:
    """What is wrong with a network that is spelled out; None if nothing is."""
    try:
        _custom(name)
    except UnknownKindError as error:
        return error.message
    return None


def _custom(name: str) -> Network:
    pairs = [pair.partition("=") for pair in name.removeprefix(CUSTOM).split(",")]
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    if unknown := [key for key in fields if key not in FIGURES]:
        raise UnknownKindError(
            f"{unknown[0]!r} in {name!r}; known: {', '.join(FIGURES)}", field="load.network"
        )
    try:
        return Network.model_validate({"name": name, "source": "the submission", "date": "2024", **fields})
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{first['loc'][0]} in {name!r}" if first["loc"] else repr(name)
        raise UnknownKindError(f"{where}: {first['msg']}", field="load.network") from error
