"""Part of ``serve``: the same server on each of several devices, and the balancer before them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferbench_tasks.backends import startup
from inferbench_tasks.backends.base import Backend, Deployment
from inferbench_tasks.backends.probes.base import Probe, open_probe
from inferbench_tasks.contracts.handles import ColdStart
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.cores import granted
from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.launchers.base import Launcher
from inferbench_tasks.stages.balanced import balanced
from inferbench_tasks.stages.base import Context

_FIELD = "serve.devices"


@dataclass(frozen=True)
class Group:
    """``front``: what is asked, as one server: the balancer's endpoint and a probe of it; its handle is the first
    replica's.
    """

    front: startup.Started
    replicas: tuple[Replica, ...]
    balancer: Balancer
    cold_start: ColdStart

    @property
    def settings(self) -> dict[str, Any]:
        """What the configuration has beside those of one server."""
        return {"replicas": len(self.replicas), "balancer": self.balancer.settings}


@dataclass(frozen=True)
class One:
    """A replica that has answered right; the probe of ``started`` is closed."""

    replica: Replica
    started: startup.Started
    cold_start: ColdStart


def replicated(
    held: Sequence[HeldDevice],
    spare_cores: Sequence[int],
    backend: Backend,
    deployment: Deployment,
    launcher: Launcher,
    servers_dir: Path,
    ctx: Context,
    check: Callable[[Probe], None],
) -> Group:
    """Start one server after the other, so that none takes from another's start, each asked before the next begins;
    then the balancer. Whatever was started is the caller's to end. ServerError names the replica.

    ``held``: the job's devices, none where nobody leased any; ``check``: asks once, and raises ServerError where the
    answer is not right.
    """
    spec = deployment.spec
    devices, left = places(held, spare_cores, spec.devices)
    each: list[One] = []
    for number, device in enumerate(devices, 1):
        ctx.progress(0, 3, f"starting {spec.backend} {number} of {len(devices)} on {device.device_id}")
        own = replace(deployment, folder=deployment.folder / f"replica-{number}", cores=device.cores)
        own.folder.mkdir(exist_ok=True)
        each.append(
            start_one(type(backend)(), own, device, number, len(devices), launcher, servers_dir, ctx, check)
        )
    ctx.progress(0, 3, "starting nginx before them")
    replicas = tuple(one.replica for one in each)
    endpoint, balancer = balanced(
        deployment.run_id,
        spec.balancer,
        deployment.folder / "balancer",
        replicas,
        shared=[core for device in devices for core in device.cores],
        spare=left,
        launcher=launcher,
        servers_dir=servers_dir,
        ctx=ctx,
    )
    slowest = max(each, key=lambda one: one.cold_start.total_ms)
    return Group(
        front=replace(each[0].started, endpoint=endpoint, probe=open_probe(endpoint)),
        replicas=replicas,
        balancer=balancer,
        cold_start=slowest.cold_start,
    )


def start_one(
    backend: Backend,
    deployment: Deployment,
    device: HeldDevice,
    number: int,
    of: int,
    launcher: Launcher,
    servers_dir: Path,
    ctx: Context,
    check: Callable[[Probe], None],
) -> One:
    """Start a replica on its device and have it asked once; ServerError with its name where that is not right."""
    name = f"Replica {number} of {of} ({device.device_id})"
    try:
        started = startup.start(backend, deployment, launcher, servers_dir, ctx.cancelled)
    except ServerError as error:
        raise ServerError(f"{name}: {error}") from error
    try:
        asked_s = time.monotonic()
        check(started.probe)
        first_ms = (time.monotonic() - asked_s) * 1e3
    except ServerError as error:
        raise ServerError(
            f"{name}: {error}\nThe end of its log:\n{launcher.log_end(started.server)}"
        ) from error
    finally:
        started.probe.close()
    replica = Replica(
        number=number,
        of=of,
        device_id=device.device_id,
        cores=device.cores,
        server=started.server,
        endpoint=started.endpoint,
    )
    cold = ColdStart(
        process_ms=started.process_ms,
        model_load_ms=started.model_load_ms,
        first_answer_ms=first_ms,
        total_ms=started.process_ms + started.model_load_ms + first_ms,
    )
    return One(replica, started, cold)


def places(
    held: Sequence[HeldDevice], spare: Sequence[int], count: int
) -> tuple[tuple[HeldDevice, ...], tuple[int, ...]]:
    """A device for each replica, with cores of its own, and what is left for others.

    Where nobody leased any, the cores that this process is granted are divided evenly. InputError where there are too
    few, or where devices share cores or state none.
    """
    if not held:
        cores = granted()
        each = len(cores) // count
        if not each:
            raise InputError(f"{count} devices need a core each; {len(cores)} may be used here", field=_FIELD)
        parts = [tuple(cores[at * each : (at + 1) * each]) for at in range(count)]
        return tuple(map(_of_this_host, parts)), tuple(cores[count * each :])
    if len(held) != count:
        raise InputError(f"The job holds {len(held)} device(s) and needs {count}", field=_FIELD)
    if bare := [device.device_id for device in held if not device.cores]:
        raise InputError(
            f"{', '.join(bare)} states no cores, and a replica is kept to its device's; start its worker with --device "
            "cpu:FIRST-LAST",
            field=_FIELD,
        )
    all_cores = [core for device in held for core in device.cores]
    if len({*all_cores}) < len(all_cores):
        raise InputError(
            f"{', '.join(device.device_id for device in held)} share cores, and each replica needs its own",
            field=_FIELD,
        )
    return tuple(held), tuple(core for core in spare if core not in all_cores)


def _of_this_host(cores: tuple[int, ...]) -> HeldDevice:
    host = socket.gethostname()
    span = f"{cores[0]}" if len(cores) == 1 else f"{cores[0]}-{cores[-1]}"
    return HeldDevice(device_id=f"{host}.cpu-{span}", device_type="cpu", host=host, cores=cores)
