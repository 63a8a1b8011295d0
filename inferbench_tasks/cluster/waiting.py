"""Why a job waits, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.order import waiting_in_order

#: More than this is counted, not listed.
LISTED = 200


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants a job: the user that its submission names, and who started it by login."""

    user: str
    login: str | None


def waiting_jobs(
    index: Index,
    devices: Mapping[str, Device],
    now: float,
    held_back: str | None = None,
    *,
    askers: Mapping[str, Asker] | None = None,
    aside: Mapping[QueuedJob, str] | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """(the first waiting jobs as the policy would take them, how many wait): job, what is known of it, why.

    ``held_back``: why none is given a device now. ``askers``: of each job, its tenant where there is none.
    ``aside``: the jobs that get none for the time being, with their reasons; they come last.
    """
    specs, reasons = [*waiting_in_order(index, now, LISTED), *(aside or ())], aside or {}
    total = sum(entry.run is None for entry in index.jobs.values()) + len(reasons)
    by = askers or {}
    kept: dict[Any, Callable[[int], str]] = {}

    def said(spec: QueuedJob, place: int) -> str:
        if text := held_back or reasons.get(spec):
            return text
        alike = spec.device_types, spec.n_devices, spec.avoid, spec.unable, spec.attempt > 0
        if alike not in kept:
            kept[alike] = _kept_by(spec, devices, now)
        return kept[alike](place)

    rows = [
        {
            "job": spec.job_id,
            "user": by[spec.job_id].user if spec.job_id in by else spec.tenant,
            "login": by[spec.job_id].login if spec.job_id in by else None,
            "priority": spec.priority,
            "expected_s": round(spec.est_s, 3),
            "waited_s": round(max(0.0, now - spec.submit_s), 3),
            "device_types": sorted(spec.device_types),
            "devices": spec.n_in_all,
            "attempt": spec.attempt,
            "why": said(spec, place),
        }
        for place, spec in enumerate(specs[:LISTED])
    ]
    return rows, total


def waiting_by_login(index: Index, aside: Iterable[QueuedJob] = ()) -> Counter[str]:
    """How many jobs of each login have no device; ``aside``: the jobs that get none for the time being."""
    waiting = Counter(entry.spec.tenant for entry in index.jobs.values() if entry.run is None)
    waiting.update(spec.tenant for spec in aside)
    return waiting


def why(spec: QueuedJob, place: int, devices: Mapping[str, Device], now: float) -> str:
    """What keeps the job from its devices. ``place``: how many jobs come first."""
    return _kept_by(spec, devices, now)(place)


def _kept_by(spec: QueuedJob, devices: Mapping[str, Device], now: float) -> Callable[[int], str]:
    """What keeps jobs of these types, number of devices and devices to avoid; by how many jobs come first."""
    types, n = " or ".join(sorted(spec.device_types)), spec.n_devices
    suited = [
        d for d in devices.values() if d.device_type in spec.device_types and d.device_id not in spec.unable
    ]
    if not suited and spec.unable:
        return _whatever(f"no host can do what it asks for ({spec.ability})")
    if not suited:
        return _whatever(
            f"no device of type {types} was ever registered; start one: inferbench worker --device ..."
        )
    if short := too_few(suited, n, types):
        return _whatever(short)
    there = _on_hosts([d for d in suited if d.present(TTL_S)], n)
    if not there:
        names = ", ".join(d.device_id for d in suited)
        return _whatever(f"no worker of {_a_device(n)} of type {types} is running ({names})")
    fit = _on_hosts([d for d in there if d.health == "ok"], n)
    if not fit:
        reasons = "; ".join(f"{d.device_id}: {d.reason}" for d in there if d.health != "ok")
        return _whatever(f"quarantined: {reasons}")
    free_of = _on_hosts([d for d in fit if d.device_id not in spec.avoid], n)
    if not free_of:
        lost = ", ".join(d.device_id for d in fit if d.device_id in spec.avoid)
        if not spec.attempt:
            return _whatever(f"it may not run on {lost}, and no other device is there")
        return _whatever(f"its run was lost on {lost}, and no other device is there")
    busy = [d for d in free_of if d.lease]
    if _on_hosts([d for d in free_of if not d.lease], n):
        return lambda place: "a device is free: next decision" if place == 0 else f"{place} job(s) come first"
    first = min(max(0.0, d.lease.est_end_s - now) for d in busy if d.lease)
    at_once = f", {n} of one host are needed at once" if n > 1 else ""
    text = f"{len(busy)} of {len(free_of)} device(s) busy, the next expected free in {first:.0f} s{at_once}"
    return lambda place: f"{place} job(s) come first, {text}" if place else text


def _whatever(text: str) -> Callable[[int], str]:
    """However many come first."""
    return lambda place: text


def too_few(devices: Iterable[Device], n_devices: int, types: str) -> str | None:
    """That no host has so many of these devices, with the most that one has; None where one has."""
    counts = Counter((device.host, device.device_type) for device in devices)
    if n_devices == 1 or any(count >= n_devices for count in counts.values()):
        return None
    most = ", ".join(f"{count} on {host}" for (host, _), count in sorted(counts.items())) or "none"
    return f"it needs {n_devices} devices of type {types} on one host; there are {most}"


def _on_hosts(devices: list[Device], n_devices: int) -> list[Device]:
    """Those on hosts that have at least so many of them; of one type."""
    counts = Counter((device.host, device.device_type) for device in devices)
    return [device for device in devices if counts[device.host, device.device_type] >= n_devices]


def _a_device(n_devices: int) -> str:
    return "a device" if n_devices == 1 else f"{n_devices} devices of one host"
