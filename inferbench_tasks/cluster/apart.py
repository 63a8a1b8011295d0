"""Jobs that hold devices of other hosts beside their own, one of each: which, and why there are none.

A host is a data directory with workers (ADR 39), and no machine is two. The policy knows of a job's own device alone;
the others are chosen here, and are unfit for anything else while they are held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.scheduling.model import QueuedJob


def own_part(lease: Lease) -> tuple[str, ...]:
    """The devices of a lease that are of the job's own host; the worker of the first runs its stages."""
    if not lease.spec.get("elsewhere"):
        return lease.members
    return lease.members[: int(lease.spec["n_devices"])]


def elsewhere_part(lease: Lease) -> tuple[str, ...]:
    """Those of other hosts, in the order of their numbers."""
    return lease.members[len(own_part(lease)) :]


def is_elsewhere(device: Device) -> bool:
    """Whether a job of another host holds it beside its own."""
    return device.lease is not None and device.device_id in elsewhere_part(device.lease)


def one_host(first: Device, second: Device) -> bool:
    """Whether two devices are of one host: workers of one data directory, or of one running kernel.

    Workers from before homes were told have their host's name alone.
    """
    same_boot = bool(first.boot_id) and first.boot_id == second.boot_id
    return same_boot or (first.home or first.host) == (second.home or second.host)


def place_of(lease: Lease, device_id: str) -> int:
    """On which host of the job a device of its lease is: 0, its own; else the number of the other one, from 1."""
    elsewhere = elsewhere_part(lease)
    return elsewhere.index(device_id) + 1 if device_id in elsewhere else 0


def together(
    spec: QueuedJob, devices: Iterable[Device], preferred: Collection[str] = ()
) -> tuple[str, ...] | None:
    """A free device for the job, and behind it one of each of as many other hosts; the ``preferred`` first."""
    return _together(spec, [d for d in devices if d.lease is None and fits(spec, d)], preferred)


def fits(spec: QueuedJob, device: Device) -> bool:
    """Whether it is there and healthy, and the job may hold it; whoever holds it now."""
    return device.present(TTL_S) and device.health == "ok" and _allowed(spec, device)


def _allowed(spec: QueuedJob, device: Device) -> bool:
    """Whether the job may hold it, as its own or elsewhere; which device was chosen binds its own alone."""
    return device.device_id not in spec.avoid or device.device_id in spec.not_its_own


def is_of(device: Device, name: str) -> bool:
    """Whether it is of the host, or the cluster, of that name; "": of any."""
    return not name or name in (device.host, device.cluster)


def _together(
    spec: QueuedJob, devices: Iterable[Device], preferred: Collection[str] = ()
) -> tuple[str, ...] | None:
    devices = sorted(devices, key=lambda d: (d.device_id not in preferred, d.device_id))
    others = [d for d in devices if d.device_type in spec.elsewhere and is_of(d, spec.elsewhere_on)]
    for own in devices:
        if own.device_type not in spec.device_types or own.device_id in spec.not_its_own:
            continue
        chosen = [own]
        for other in others:
            if not any(one_host(other, device) for device in chosen):
                chosen.append(other)
                if len(chosen) > spec.n_elsewhere:
                    return tuple(device.device_id for device in chosen)
    return None


def why_none(spec: QueuedJob, devices: Iterable[Device], now: float) -> str:
    """Why there are no such devices now."""
    present = [d for d in devices if d.present(TTL_S)]
    if reason := too_few_hosts(
        spec.device_types, spec.elsewhere, present, spec.not_its_own, spec.elsewhere_on, spec.n_elsewhere
    ):
        return reason
    needs = f"it needs a device, and one of {_other(spec.elsewhere_on, spec.n_elsewhere)}"
    fit = [d for d in present if d.health == "ok"]
    if _together(spec, fit) is None:
        unfit = "; ".join(f"{d.device_id}: {d.reason}" for d in present if d.health != "ok")
        return f"{needs}; quarantined: {unfit}"
    allowed = [d for d in fit if _allowed(spec, d)]
    if _together(spec, allowed) is None:
        names = ", ".join(d.device_id for d in fit if not _allowed(spec, d))
        return f"{needs}; it may not run on {names}"
    busy = [d for d in allowed if d.lease is not None]
    first_s = min((max(0.0, d.lease.est_end_s - now) for d in busy if d.lease), default=0.0)
    return f"{len(busy)} of {len(allowed)} device(s) busy, the next expected free in {first_s:.0f} s; {needs}, at once"


def too_few_hosts(
    own_types: frozenset[str],
    other_types: frozenset[str],
    devices: Iterable[Device],
    not_its_own: frozenset[str] = frozenset(),
    elsewhere_on: str = "",
    n_elsewhere: int = 1,
) -> str | None:
    """That not so many hosts have such devices, with the hosts that there are; None where they have.

    ``not_its_own``: the ids of those that may be one elsewhere alone; ``elsewhere_on``: of which host or cluster
    those have to be; ``n_elsewhere``: of how many other hosts it takes one.
    """
    devices = list(devices)
    probe = QueuedJob(
        "",
        "",
        "",
        0.0,
        0.0,
        1.0,
        own_types,
        elsewhere=other_types,
        not_its_own=not_its_own,
        elsewhere_on=elsewhere_on,
        n_elsewhere=n_elsewhere,
    )
    if _together(probe, devices) is not None:
        return None
    there = f"hosts with a worker: {', '.join(sorted({d.host for d in devices})) or 'none'}"
    if clusters := sorted({d.cluster for d in devices if d.cluster}):
        there += f"; clusters: {', '.join(clusters)}"
    if elsewhere_on and not any(is_of(d, elsewhere_on) for d in devices):
        return f"no host or cluster {elsewhere_on!r} has a worker; {there}"
    types = " or ".join(sorted(own_types)), " or ".join(sorted(other_types))
    chosen = [d.device_id for d in devices if d.device_type in own_types and d.device_id not in not_its_own]
    which = f" ({' or '.join(sorted(chosen)) or 'which is not there'})" if not_its_own else ""
    return (
        f"it needs a device of type {types[0]}{which}, and one of type {types[1]} of "
        f"{_other(elsewhere_on, n_elsewhere)}; {there}. "
        "Have one join: inferbench worker --join"
    )


def _other(name: str, count: int) -> str:
    if count > 1:
        return f"each of {count} other hosts" + (f" of {name!r}" if name else "")
    return f"{name!r}, which is to be another host" if name else "another host"
