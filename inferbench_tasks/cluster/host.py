"""What PerfDB holds of each host: the machine, its versions, its clock and its cache, as its workers told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.cluster.clock import ClockOffset
from inferbench_tasks.cluster.versions import Versions


class Told(BaseModel):
    """Part of a host's document."""

    model_config = ConfigDict(frozen=True)


class Gpu(Told):
    """One GPU by its UUID, which stays whatever the others are counted as."""

    uuid: str
    index: int
    name: str
    memory_bytes: int
    driver: str


class Interface(Told):
    """A network interface that is up and no loopback."""

    name: str
    addresses: list[str]
    """IPv4 and IPv6, without scope."""
    speed_mbit_s: int | None
    """As its driver says, not as measured; None where it says none (Wi-Fi, many virtual ones)."""
    mtu_bytes: int


class FrameworkVersion(Told):
    """A version of a framework. ``place``: ``here``, InferBench's own environment, or one that backends make."""

    name: str
    version: str
    place: str


class Facts(Told):
    """What the machine is; read once, when a worker starts."""

    host: str
    """Its name."""
    cpu: str
    machine: str
    """Of the instruction set: x86_64, aarch64."""
    kernel: str
    cores_physical: int | None
    cores_logical: int
    cores_usable: int
    """Logical ones that the worker may use, as of a container's cpuset."""
    memory_bytes: int
    gpus: list[Gpu] = Field(default_factory=list)
    gpus_unknown: str = ""
    """Why GPUs can't be looked for; "" where they can."""
    interfaces: list[Interface] = Field(default_factory=list)
    frameworks: list[FrameworkVersion] | None = None
    """Those that it can run; None of workers from before they were told."""


class CacheUse(Told):
    """What a host keeps of artifacts that it fetched, and the room that its data directory's file system has."""

    fetched_bytes: int
    limit_bytes: int
    free_bytes: int


class Host(BaseModel):
    """One host: a data directory with its workers. ``home`` tells it from all others (``settings.home_id``)."""

    model_config = ConfigDict(frozen=True)

    home: str
    versions: Versions
    facts: Facts
    clock: ClockOffset | None = None
    """None until it could be measured."""
    clock_age_s: float | None = None
    """Seconds since it was, by PerfDB's clock."""
    cache: CacheUse | None = None
    token_left_s: float | None = None
    """Seconds until the token ends by which it joined, by PerfDB's clock; None of one that joined by none."""
