"""What this machine is: CPU, cores, memory, GPUs by UUID, network interfaces."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Sequence
from typing import Any

import psutil

from inferbench_tasks.cluster.host import Facts, FrameworkVersion, Gpu, Interface
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.workers.devices import cpu_model

#: What Linux's drivers tell as the speed of a link that has none.
_NO_SPEED = frozenset({0, -1, 65535, 2**32 - 1})


def facts(frameworks: Sequence[FrameworkVersion] | None = None) -> Facts:
    """Of this machine, as it is now; what can't be told stands as unknown, not as a guess."""
    gpus, unknown = _gpus()
    return Facts(
        host=socket.gethostname(),
        cpu=cpu_model(),
        machine=platform.machine(),
        kernel=platform.release(),
        cores_physical=psutil.cpu_count(logical=False),
        cores_logical=psutil.cpu_count() or len(os.sched_getaffinity(0)),
        cores_usable=usable_cores(),
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        gpus_unknown=unknown,
        frameworks=None if frameworks is None else list(frameworks),
        interfaces=interfaces(psutil.net_if_stats(), psutil.net_if_addrs()),
    )


def interfaces(stats: dict[str, Any], addresses: dict[str, Any]) -> list[Interface]:
    """Those that are up and have an address, without loopback; from psutil's two answers."""
    internet = (socket.AF_INET, socket.AF_INET6)
    found = []
    for name, state in sorted(stats.items()):
        mine = [a.address.partition("%")[0] for a in addresses.get(name, ()) if a.family in internet]
        if not state.isup or not mine or "loopback" in state.flags.split(","):
            continue
        speed = None if state.speed in _NO_SPEED else state.speed
        found.append(Interface(name=name, addresses=mine, speed_mbit_s=speed, mtu_bytes=state.mtu))
    return found


def _gpus() -> tuple[list[Gpu], str]:
    """(GPUs, why none can be looked for)."""
    try:
        import pynvml
    except ImportError:
        return [], "NVML's package is missing (inferbench[gpu])"
    try:
        pynvml.nvmlInit()
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [
            Gpu(
                uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                index=index,
                name=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                driver=driver,
            )
            for index, handle in enumerate(handles)
        ], ""
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
