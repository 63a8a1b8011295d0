"""The hosts as people see them: versions, machine, clock, cache, links, and the devices that are served there."""

from __future__ import annotations

from pydantic import BaseModel

from inferbench_tasks.cluster import token_end
from inferbench_tasks.cluster.clock import fault, warning
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import FrameworkVersion, Gpu, Host, Interface
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.links import Links
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.cluster.versions import Versions, unfit
from inferbench_tasks.contracts.link import MeasuredLink
from inferbench_tasks.perfdb.store import PerfDB


class NodeLink(BaseModel):
    """The way from a host to another one: ``round_trip_ms`` in the median, ``up_mbit_s`` of what goes there."""

    to: str
    """The other one's name, and ``address``: where it was reached."""
    address: str
    round_trip_ms: float | None
    up_mbit_s: float | None
    down_mbit_s: float | None
    age_s: float
    """Seconds since it was measured."""


class NodeState(BaseModel):
    """A host with a data directory of its own. What was not told is None: its workers are of an earlier version."""

    host: str
    home: str
    """The id of its data directory; two hosts of one name differ in it."""
    leader: bool
    """Whether the leader has the same data directory."""
    state: str
    """serving; refused: of other versions than the leader; gone: no worker gives a sign of life"""
    reason: str
    devices: list[str]
    """Those whose workers run."""
    clusters: list[str] = []
    """The names that these were started with (``inferbench worker --cluster``)."""
    inferbench: str | None
    python: str | None
    protocol: int | None
    cpu: str | None
    machine: str | None
    kernel: str | None
    cores_physical: int | None
    cores_logical: int | None
    cores_usable: int | None
    memory_bytes: int | None
    gpus: list[Gpu]
    gpus_unknown: str
    interfaces: list[Interface]
    frameworks: list[FrameworkVersion] | None = None
    clock_ahead_s: float | None
    """Its clock less PerfDB's."""
    clock_error_s: float | None
    """At most so much is that wrong, at the time of the measurement."""
    clock_round_trip_s: float | None
    clock_age_s: float | None
    """Seconds since it was measured."""
    clock_warning: str | None = None
    """What is wrong with it and what to do; None where nothing is or is known, and of a host that is gone."""
    cache_fetched_bytes: int | None
    """What was fetched from other hosts and is kept."""
    cache_limit_bytes: int | None
    disk_free_bytes: int | None
    """On the file system of its data directory."""
    token_left_s: float | None = None
    """Seconds until the token ends by which it joined; None of one that joined by none."""
    token_warning: str | None = None
    """That it ends soon, or has ended, and what to do."""
    measured_links: list[NodeLink] = []
    """The ways from it to other hosts, each as it was measured from it last, by a load, a training or a person."""


def node_states(db: PerfDB) -> list[NodeState]:
    """All hosts that workers told of, and those of devices whose workers told nothing of theirs; by name."""
    hosts, leader = Hosts(db), Hosts(db).leader()
    known, unread = hosts.all_and_unread()
    homes = {host.home for host in known} | {host.home for host in unread}
    devices = Cluster(db).devices()
    states = [_state(host, [d for d in devices if d.home == host.home], leader) for host in known]
    for lost in unread:
        state = _untold(lost.host, lost.home, [d for d in devices if d.home == lost.home], leader)
        told = f"{lost.why}: start a worker there again, with the leader's version"
        states.append(state.model_copy(update={"reason": "; ".join(filter(None, (state.reason, told)))}))
    untold = {(d.host, d.home) for d in devices if d.home not in homes}
    for name, home in untold:
        mine = [d for d in devices if (d.host, d.home) == (name, home)]
        states.append(_untold(name, home, mine, leader))
    links = _measured_links(db)
    states = [state.model_copy(update={"measured_links": links.get(state.home, [])}) for state in states]
    return sorted(states, key=lambda state: (not state.leader, state.host, state.home))


def _measured_links(db: PerfDB) -> dict[str, list[NodeLink]]:
    """By the data directory of the host that measured: the newest to each other one."""
    newest: dict[tuple[str, str], tuple[MeasuredLink, float]] = {}
    for link, age_s in Links(db).all():
        key = link.near.home, link.far.home
        if key not in newest or age_s < newest[key][1]:
            newest[key] = link, age_s
    by_home: dict[str, list[NodeLink]] = {}
    for (home, _), (link, age_s) in newest.items():
        told = NodeLink(
            to=link.far.host,
            address=link.far.address,
            round_trip_ms=link.round_trip.p50_ms,
            up_mbit_s=link.up_mbit_s,
            down_mbit_s=link.down_mbit_s,
            age_s=age_s,
        )
        by_home.setdefault(home, []).append(told)
    return by_home


def _state(host: Host, devices: list[Device], leader: tuple[Versions, str] | None) -> NodeState:
    facts, clock, cache = host.facts, host.clock, host.cache
    standing = _standing(host.home, host.versions, devices, leader)
    token = token_end.warning(host.token_left_s) if host.token_left_s is not None else ""
    gone = standing["state"] == "gone"  # nobody measures its clock any more, nor could be told to set it
    return NodeState(
        host=facts.host,
        home=host.home,
        **standing,
        **host.versions.model_dump(),
        **facts.model_dump(exclude={"host"}),
        clock_ahead_s=clock.ahead_s if clock else None,
        clock_error_s=clock.error_s if clock else None,
        clock_round_trip_s=clock.round_trip_s if clock else None,
        clock_age_s=host.clock_age_s if clock else None,
        clock_warning=(fault(clock.ahead_s) or warning(clock.ahead_s) or None)
        if clock and not gone
        else None,
        cache_fetched_bytes=cache.fetched_bytes if cache else None,
        cache_limit_bytes=cache.limit_bytes if cache else None,
        disk_free_bytes=cache.free_bytes if cache else None,
        token_left_s=host.token_left_s,
        token_warning=token or None,
    )


def _untold(name: str, home: str, devices: list[Device], leader: tuple[Versions, str] | None) -> NodeState:
    nothing = dict.fromkeys(field for field, info in NodeState.model_fields.items() if info.is_required())
    versions = next((d.versions for d in devices if d.versions), None)
    return NodeState.model_validate(
        {
            **nothing, "host": name, "home": home, "gpus": [], "interfaces": [],
            "gpus_unknown": "its workers did not say",
            **(versions.model_dump() if versions else {}),
            **_standing(home, versions, devices, leader),
        }
    )  # fmt: skip


def _standing(
    home: str, versions: Versions | None, devices: list[Device], leader: tuple[Versions, str] | None
) -> dict[str, object]:
    present = [device for device in devices if device.present(TTL_S)]
    reason = unfit(versions, leader[0]) if leader and present else ""
    return {
        "leader": bool(leader and home and leader[1] == home),
        "state": "gone" if not present else "refused" if reason else "serving",
        "reason": reason,
        "devices": [device.device_id for device in present],
        "clusters": sorted({device.cluster for device in present if device.cluster}),
    }
