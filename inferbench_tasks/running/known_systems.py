"""The devices that ``systems`` chooses among: those of a cluster, as workers told them, or this machine's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic import BaseModel

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import Facts, Host
from inferbench_tasks.cluster.store import TTL_S
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.manifests.built_in.frameworks import versions_here
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.named_systems import fits_of
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import Job
from inferbench_tasks.submission.systems import Framework, System
from inferbench_tasks.workers.devices import find, gpu_count
from inferbench_tasks.workers.host_facts import facts

_GB = 1e9
NOT_FIRST = (
    "`inferbench run` uses the first GPU that CUDA_VISIBLE_DEVICES leaves; name this one there by its UUID, or serve "
    "it with `inferbench up`"
)


def of_devices(devices: Iterable[Device], hosts: Iterable[Host]) -> list[System]:
    """Registered devices with the facts of their hosts; what a host did not tell is unknown."""
    by_home = {host.home: host.facts for host in hosts}
    return [system_of(device, by_home.get(device.home), _unfit(device)) for device in devices]


def of_this_machine() -> list[System]:
    """Its cores as one device, and its GPUs, of which a run that no worker serves uses the first that CUDA sees."""
    of_host = facts(versions_here())
    gpus = [find(f"gpu:{index}") for index in range(gpu_count())]
    return [
        system_of(find("cpu"), of_host),
        *(system_of(gpu, of_host, "" if _is_first(gpu, len(gpus)) else NOT_FIRST) for gpu in gpus),
    ]


def system_of(device: Device, of_host: Facts | None, unfit: str = "") -> System:
    """A device and its host as ``systems`` sees them."""
    told = None if of_host is None else of_host.frameworks
    return System(
        id=device.device_id,
        device=DeviceSpec("cpu" if device.gpu_index is None else f"gpu:{device.device_type}"),
        name=device.name,
        arch=of_host.machine if of_host is not None else device.capabilities.get("machine"),
        cores=len(device.cores) or None,
        memory_gb=round(device.memory_bytes / _GB) or None,
        frameworks=None if told is None else tuple(Framework(f.name, f.version, f.place) for f in told),
        unfit=unfit,
    )


def _unfit(device: Device) -> str:
    if not device.present(TTL_S):
        return f"its worker has given no sign of life for {device.age_s:.0f} s"
    return f"quarantined: {device.reason}" if device.health != "ok" else ""


def _is_first(gpu: Device, count: int) -> bool:
    """Whether CUDA counts it first here. Of several only a UUID tells: CUDA's order need not be the driver's."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return count == 1
    first = visible.split(",")[0].strip()
    return first == gpu.capabilities.get("uuid") or (count == 1 and first == "0")


def absent(spec: JobBase, systems: Callable[[], Sequence[System]]) -> Iterator[Finding]:
    """That what may be given to a job is not the system that was chosen for it; asked of such jobs only."""
    if not isinstance(spec, JobSpec) or spec.system is None or not (known := systems()):
        return
    allowed = [system for system in known if system.id in spec.only_on()]
    if others := [system.id for system in allowed if not system.fulfils(spec.system)]:
        yield Finding(
            ("system",), f"it is not {', '.join(others)}; leave it out, and give systems or serve.device"
        )
    elif not allowed:
        yield Finding(
            ("system",),
            f"no device here is {', '.join(spec.only_on())}; leave it out, and give systems or serve.device",
        )


class SystemRow(BaseModel):
    """A device that is known where a submission with ``systems`` is planned; ``misses``: the first requirement."""

    device: str
    type: str
    name: str
    chosen: bool
    misses: str | None


def system_rows(
    submission: SubmissionBase, jobs: Iterable[Job[JobBase]], abilities: Abilities
) -> list[SystemRow]:
    """Each device that is known, by id; none where the submission asks for no systems."""
    chosen = {device_id for job in jobs for device_id in job.spec.only_on()}
    return [
        SystemRow(
            device=fit.system.id,
            type=fit.system.device,
            name=fit.system.name,
            chosen=fit.system.id in chosen,
            misses=None if fit.miss is None else str(fit.miss),
        )
        for fit in fits_of(submission, abilities)
    ]
