"""Jobs that need of their devices' host what not every host can do, and which devices are none for them.

Workers tell what their host can't do when they begin. The policy knows of devices that a job avoids alone: they are put
among these here, and taken out again once their workers tell otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.waiting import too_few
from inferbench_tasks.scheduling.model import QueuedJob


def unable(ability: str, devices: Iterable[Device]) -> frozenset[str]:
    """The ids of the devices whose hosts can't do that."""
    return frozenset(device.device_id for device in devices if ability and device.lacks(ability))


def matched(job: QueuedJob, devices: Iterable[Device]) -> QueuedJob:
    """The job, which names devices by their ids alone, with those avoided whose hosts can't do what it needs now.

    That is asked of its own host: on others that it holds a device of nothing of the kind is needed.
    """
    otherwise = job.avoid - job.unable
    those = unable(job.ability, devices) - otherwise
    elsewhere = (job.not_its_own - job.unable) | those if job.elsewhere else job.not_its_own
    return replace(job, avoid=otherwise | those, unable=those, not_its_own=elsewhere)


def no_host(ability: str, suited: Iterable[Device], n_devices: int, types: str) -> str | None:
    """That no host with so many of these devices can do what a job needs: which can't, why, and the remedy.

    None where one can, and where no host has so many, whatever it can do.
    """
    suited = list(suited)
    without = [device for device in suited if ability and device.lacks(ability)]
    able = [device for device in suited if not (ability and device.lacks(ability))]
    if not without or too_few(suited, n_devices, types) or (able and too_few(able, n_devices, types) is None):
        return None
    ids_by_reason: dict[str, list[str]] = {}
    for device in without:
        ids_by_reason.setdefault(device.lacks(ability), []).append(device.device_id)
    told = "; ".join(f"{', '.join(sorted(ids))}: {reason}" for reason, ids in sorted(ids_by_reason.items()))
    devices = "a device" if n_devices == 1 else f"{n_devices} devices"
    return (
        f"it needs {devices} of type {types} on one host with what it asks for ({ability}); {told}. Then "
        "start the workers there again"
    )


def lacking(job: QueuedJob, devices: Iterable[Device]) -> str | None:
    """The same of a job that waits."""
    others = job.avoid - job.unable  # which it may not have whatever their hosts can do
    suited = [d for d in devices if d.device_type in job.device_types and d.device_id not in others]
    return no_host(job.ability, suited, job.n_devices, " or ".join(sorted(job.device_types)))


def absent_host(job: QueuedJob, devices: Iterable[Device], ttl_s: float) -> str | None:
    """That a job which is run again waits for the worker of a host that can do what it needs: those that are there are
    all avoided, and one of which no sign of life came within ``ttl_s`` is not.

    The policy gives such a job up where it knows the former alone: a scheduler that begins is told of the latter once
    their workers are there. None for all other jobs.
    """
    if not (job.ability and job.attempt):
        return None
    types = " or ".join(sorted(job.device_types))
    suited = [d for d in devices if d.device_type in job.device_types]
    fit = [d for d in suited if d.device_id not in job.avoid]
    there = [d for d in fit if d.present(ttl_s)]
    if not any(d.present(ttl_s) for d in suited) or _enough(there, job.n_devices, types):
        return None
    if not _enough(fit, job.n_devices, types):
        return None
    absent = ", ".join(sorted(d.device_id for d in fit if not d.present(ttl_s)))
    return f"no worker of a device with what it asks for is running ({absent})"


def _enough(devices: list[Device], n_devices: int, types: str) -> bool:
    return bool(devices) and too_few(devices, n_devices, types) is None
