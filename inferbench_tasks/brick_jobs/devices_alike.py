"""The devices that bricks may be timed on: those whose host is like the one that the models were cut on."""

from __future__ import annotations

from collections.abc import Mapping

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes.told import asked_by, text_of
from inferbench_tasks.cluster.device import TELLS, Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.likeness import instead, likeness
from inferbench_tasks.errors import StageError
from inferbench_tasks.perfdb.store import PerfDB


def require_device(db: PerfDB, job: BricksJob, setting: Setting) -> None:
    """StageError, with what each device is and the remedies, where none that the job may have is like that.

    Where none has a worker yet the job waits for one, as every job does. What a worker did not tell is not held against
    it: ``measure`` compares once more.
    """
    ability = asked_by(setting)
    suited = [device for device in Cluster(db).devices() if _may_have(job, device)]
    devices = [device for device in suited if not device.stopped]
    unlike = {device.device_id: text for device in devices if (text := _instead(ability, device))}
    if len(unlike) < len(devices) or not devices:
        return
    ids_by_text: dict[str, list[str]] = {}
    for device_id, text in sorted(unlike.items()):
        ids_by_text.setdefault(text, []).append(device_id)
    each = "; ".join(f"{', '.join(ids)}: {text}" for text, ids in ids_by_text.items())
    stopped = sorted(device.device_id for device in suited if device.stopped and _is_so(ability, device))
    if stopped:
        each += f"; {', '.join(stopped)}: like it, but its worker is stopped: start it again"
    raise StageError(
        f"models are cut on this host, for {text_of(setting)}, and no device that their bricks may be timed on is like "
        f"it ({each}). Start a worker on a host that is, with the same version (workers tell what there is when they "
        "start), or submit this to a system on a host like theirs (docs/how-to/worker-on-another-host.md)"
    )


def _may_have(job: BricksJob, device: Device) -> bool:
    of_kind = (device.gpu_index is None) == (job.serve.device.kind == "cpu")
    return of_kind and (not job.on_devices or device.device_id in job.on_devices)


def _is_so(ability: str, device: Device) -> bool:
    """Whether its worker told that."""
    tells = device.capabilities.get(TELLS)
    return isinstance(tells, Mapping) and any(likeness(of, told) == ability for of, told in tells.items())


def _instead(ability: str, device: Device) -> str:
    return instead(ability, device.capabilities.get(TELLS, {}))
