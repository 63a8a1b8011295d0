"""Jobs that hold a device of another host beside their own: which two, and why there are none.

A host is a data directory with workers (ADR 39), and no machine is two. The policy knows of a job's own device alone;
the other one is chosen here, and is unfit for anything else while it is held.
"""

from __future__ import annotations

from collections.abc import Iterable

from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.scheduling.model import QueuedJob


def own_part(lease: Lease) -> tuple[str, ...]:
    """The devices of a lease that are of the job's own host; the worker of the first runs its stages."""
    if not lease.spec.get("elsewhere"):
        return lease.members
    return lease.members[: int(lease.spec["n_devices"])]


def elsewhere_part(lease: Lease) -> tuple[str, ...]:
    """Those of the other host."""
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


def pair(spec: QueuedJob, devices: Iterable[Device], preferred: str = "") -> tuple[str, str] | None:
    """A free device for the job and a free one of another host, the ``preferred`` one as its own if that goes."""
    return _pair(spec, [d for d in devices if d.lease is None and fits(spec, d)], preferred)


def fits(spec: QueuedJob, device: Device) -> bool:
    """Whether it is there and healthy, and the job may hold it; whoever holds it now."""
    return device.present(TTL_S) and device.health == "ok" and _allowed(spec, device)


def _allowed(spec: QueuedJob, device: Device) -> bool:
    """Whether the job may hold it, as its own or elsewhere; which device was chosen binds its own alone."""
    return device.device_id not in spec.avoid or device.device_id in spec.not_its_own


def is_of(device: Device, name: str) -> bool:
    """Whether it is of the host, or the cluster, of that name; "": of any."""
    return not name or name in (device.host, device.cluster)


def _pair(spec: QueuedJob, devices: Iterable[Device], preferred: str = "") -> tuple[str, str] | None:
    devices = sorted(devices, key=lambda d: (d.device_id != preferred, d.device_id))
    others = [d for d in devices if d.device_type in spec.elsewhere and is_of(d, spec.elsewhere_on)]
    for own in devices:
        if own.device_type not in spec.device_types or own.device_id in spec.not_its_own:
            continue
        other = next((d for d in others if not one_host(d, own)), None)
        if other is not None:
            return own.device_id, other.device_id
    return None


def why_none(spec: QueuedJob, devices: Iterable[Device], now: float) -> str:
    """Why there is no such pair now."""
    present = [d for d in devices if d.present(TTL_S)]
    if reason := too_few_hosts(
        spec.device_types, spec.elsewhere, present, spec.not_its_own, spec.elsewhere_on
    ):
        return reason
    needs = f"it needs a device, and one of {_other(spec.elsewhere_on)}"
    fit = [d for d in present if d.health == "ok"]
    if _pair(spec, fit) is None:
        unfit = "; ".join(f"{d.device_id}: {d.reason}" for d in present if d.health != "ok")
        return f"{needs}; quarantined: {unfit}"
    allowed = [d for d in fit if _allowed(spec, d)]
    if _pair(spec, allowed) is None:
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
) -> str | None:
    """That no two hosts have such devices, with the hosts that there are; None where they have.

    ``not_its_own``: the ids of those that may be the one elsewhere alone; ``elsewhere_on``: of which host or cluster
    that one has to be.
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
    )
    if _pair(probe, devices) is not None:
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
        f"it needs a device of type {types[0]}{which}, and one of type {types[1]} of {_other(elsewhere_on)}; {there}. "
        "Have one join: inferbench worker --join"
    )


def _other(name: str) -> str:
    return f"{name!r}, which is to be another host" if name else "another host"
