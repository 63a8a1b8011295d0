"""The devices of this machine: CPU partitions pinned to cores, and GPUs by NVML."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psutil

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.contracts.device import DeviceKind, DeviceSpec
from inferbench_tasks.contracts.spec import SLUG_PATTERN
from inferbench_tasks.cores import granted, usable_cores
from inferbench_tasks.errors import InputError

AUTO = "auto"
FORM = "cpu, cpu:<n>, cpu:<first>-<last> (cores), gpu, gpu:<index>"
_CORES = re.compile(r"(\d+)(?:-(\d+))?")


def host_name() -> str:
    """This machine's name, fit for a queue's name."""
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0]) or "host"


def find(text: str) -> Device:
    """The device that a worker is asked to serve; raises InputError if this machine does not have it."""
    try:
        device = DeviceSpec(text)
    except ValueError:
        raise InputError(f"--device {text!r}: {FORM}") from None
    return KINDS[device.kind](device)


def cluster_name(text: str) -> str:
    """The name that was given, or that of ``INFERBENCH_CLUSTER``; "" without one. InputError for what is no name."""
    name = text or os.environ.get(settings.CLUSTER, "")
    if name and not re.fullmatch(SLUG_PATTERN, name):
        raise InputError(f"--cluster {name!r}: letters, digits, dots, underscores and hyphens, at most 100")
    return name


def partitions(workers: int) -> list[str]:
    """``--device`` of so many CPU workers on this machine, with cores of their own.

    One core is kept for the rest of the system where that leaves each worker at least one.
    Raises InputError if there are more workers than cores that this process is granted.
    """
    cores = granted()
    if workers > len(cores):
        raise InputError(
            f"--workers {workers}: this machine has {len(cores)} core(s), and each worker needs one of its own: "
            "two on one core would measure each other."
        )
    usable = cores[1:] if len(cores) > workers else cores
    each = len(usable) // workers
    shares = [usable[i * each : (i + 1) * each] for i in range(workers)]
    return [f"cpu:{s[0]}" if len(s) == 1 else f"cpu:{s[0]}-{s[-1]}" for s in shares]


def chosen(texts: Sequence[str]) -> list[str]:
    """The devices to serve, from what was asked for; ``auto`` stands for all of this machine.

    These are its GPUs if it has any, else its cores as one device, but for one of them where there are several: the
    system's own work runs there. CPU and GPUs together would measure each other. InputError for what is not there, for
    one device twice, and for two with a core in common.
    """
    if AUTO in texts:
        if len(texts) > 1:
            raise InputError(f"--device {AUTO} finds all devices of this machine; name no other beside it.")
        return [f"gpu:{index}" for index in range(gpu_count())] or partitions(1)
    found = [find(text) for text in texts]
    for position, device in enumerate(found):
        for other in found[:position]:
            same = device.device_id == other.device_id
            if same or (
                device.gpu_index is None and other.gpu_index is None and {*device.cores} & {*other.cores}
            ):
                raise InputError(
                    f"--device {texts[position]!r} shares cores with {texts[found.index(other)]!r}: jobs of both would "
                    "measure each other. Name devices of cores of their own."
                )
    together = sum(len(device.cores) for device in found if device.gpu_index is None)
    if together > usable_cores():
        raise InputError(
            f"--device {', '.join(texts)}: these are {together} cores together, and a CPU quota grants "
            f"{usable_cores()}: jobs of one would stop those of the others"
        )
    return list(texts)


def gpu_count() -> int:
    """How many GPUs NVML finds; none where its package or a driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        return 0
    except pynvml.NVMLError:
        return 0
    return int(pynvml.nvmlDeviceGetCount())


def spare_cores(devices: Iterable[Device]) -> list[int]:
    """The cores of this machine that none of these devices has: for everything that is not measured.

    None where the devices have all that a CPU quota grants: what runs on any other core is taken from theirs.
    """
    device_cores = {core for device in devices for core in device.cores}
    if len(device_cores) >= usable_cores():
        return []
    return sorted(os.sched_getaffinity(0) - device_cores)


def _cpu(device: DeviceSpec) -> Device:
    mine = os.sched_getaffinity(0)
    if not device.detail:
        cores = tuple(granted())
    elif match := _CORES.fullmatch(device.detail):
        first, last = int(match[1]), int(match[2] or match[1])
        cores = tuple(range(first, last + 1))
    else:
        raise InputError(f"--device {str(device)!r}: {FORM}")
    if not cores or not mine.issuperset(cores):
        raise InputError(f"--device {str(device)!r}: the cores that may be used here are {sorted(mine)}")
    if len(cores) > usable_cores():
        raise InputError(
            f"--device {str(device)!r}: these are {len(cores)} cores, and a CPU quota grants {usable_cores()}: jobs "
            "would measure how they are stopped"
        )
    name = f"cpu-{cores[0]}" if len(cores) == 1 else f"cpu-{cores[0]}-{cores[-1]}"
    return Device(
        device_id=f"{host_name()}.{name}",
        device_type="cpu",
        name=cpu_model(),
        host=socket.gethostname(),
        cores=cores,
        memory_bytes=psutil.virtual_memory().total,
        driver=platform.release(),
        capabilities={"cores": len(cores), "machine": platform.machine()},
        pid=os.getpid(),
    )


def cpu_model() -> str:
    """As the kernel names this machine's processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu(device: DeviceSpec) -> Device:
    try:
        import pynvml
    except ImportError as error:
        raise InputError(
            f"--device {str(device)!r}: NVML's package is missing; install the extra: inferbench[gpu]"
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise InputError(
            f"--device {str(device)!r}: no NVIDIA driver is to be found here ({error})"
        ) from error
    count = pynvml.nvmlDeviceGetCount()
    index = int(device.detail) if device.detail.isdigit() else -1 if device.detail else 0
    if not 0 <= index < count:
        raise InputError(f"--device {str(device)!r}: this machine has {count} GPU(s), counted from 0; {FORM}")
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    name = _text(pynvml.nvmlDeviceGetName(handle))
    return Device(
        device_id=f"{host_name()}.gpu-{index}",
        device_type=gpu_type(name),
        name=name,
        host=socket.gethostname(),
        cores=tuple(granted()),
        gpu_index=index,
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=_text(pynvml.nvmlSystemGetDriverVersion()),
        capabilities={
            "compute_capability": f"{major}.{minor}",
            "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        },
        pid=os.getpid(),
    )


def gpu_type(name: str) -> str:
    """``NVIDIA H100 80GB HBM3`` -> ``h100``, as a submission writes it (``gpu:h100``)."""
    for part in name.lower().split():
        if re.fullmatch(r"[a-z]+\d+[a-z]*", part) and not part.startswith("hbm"):
            return part
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


KINDS: dict[DeviceKind, Callable[[DeviceSpec], Device]] = {"cpu": _cpu, "gpu": _gpu}
