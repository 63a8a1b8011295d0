"""Is the device fit for a measurement just now: idle, healthy, and nobody else's?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil

from inferbench_tasks import settings
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError

#: A core that others use more than this is not idle. A share of 1 and above switches the check off.
BUSY = "INFERBENCH_MAX_FOREIGN_LOAD"
MAX_FOREIGN_RATIO = 0.8
#: Memory that a job may need at least.
LEAST_FREE_BYTES = 256 * 1024 * 1024
#: A GPU that nobody uses still has so much taken by its driver.
GPU_IDLE_BYTES = 1024**3


class Check:
    """Called again and again; "" if the device is fit, else why it is not. ``data_dir``: its worker's."""

    def __init__(self, device: Device, data_dir: Path) -> None:
        self.device = device
        self.data_dir = data_dir
        self.max_ratio = _max_ratio()
        settings.disk_full(data_dir)  # settings that are wrong are told now
        psutil.cpu_percent(percpu=True)  # the first answer is the mean since the start of the machine

    def __call__(self) -> str:
        return (
            self._memory()
            or settings.disk_full(self.data_dir)
            or (self._cores() if self.device.gpu_index is None else self._gpu())
        )

    def _memory(self) -> str:
        free = psutil.virtual_memory().available
        if free < LEAST_FREE_BYTES:
            return f"only {free / 1e6:.0f} MB of memory are free, {LEAST_FREE_BYTES / 1e6:.0f} are needed"
        return ""

    def _cores(self) -> str:
        """Its worker has no job now, so whatever runs on its cores is somebody else's."""
        busy = psutil.cpu_percent(percpu=True)
        shares = [busy[core] / 100 for core in self.device.cores if core < len(busy)]
        mean = sum(shares) / len(shares) if shares else 0.0
        if mean > self.max_ratio:
            return f"others use {mean:.0%} of its core(s) (at most {self.max_ratio:.0%})"
        return ""

    def _gpu(self) -> str:
        import pynvml

        try:
            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(self.device.gpu_index)
            return gpu_fault(pynvml, handle)
        except pynvml.NVMLError as error:
            return f"NVML: {error}"


def gpu_fault(nvml: object, handle: object) -> str:
    """Foreign processes, memory, throttling, uncorrected ECC errors: the first that is wrong, else ""."""
    from inferbench_tasks.monitors.gpu import HELD_BACK

    ask: Callable[[str], Callable[..., object]] = lambda name: getattr(nvml, name)  # noqa: E731
    processes: list[object] = ask("nvmlDeviceGetComputeRunningProcesses")(handle)  # type: ignore[assignment]
    if processes:
        pids = ", ".join(str(getattr(p, "pid", "?")) for p in processes)
        return f"foreign process(es) on the GPU: {pids}"
    memory = ask("nvmlDeviceGetMemoryInfo")(handle)
    used = int(getattr(memory, "used", 0))
    if used > GPU_IDLE_BYTES:
        return f"{used / 1e9:.1f} GB of the GPU's memory are taken"
    reasons = int(ask("nvmlDeviceGetCurrentClocksEventReasons")(handle))  # type: ignore[call-overload]
    for bit, name in HELD_BACK.items():
        if reasons & bit and name != "software power cap":
            return f"the GPU is held back: {name}"
    try:
        errors = int(ask("nvmlDeviceGetTotalEccErrors")(handle, 1, 0))  # type: ignore[call-overload]
    except Exception as error:  # consumer GPUs have no ECC, and NVML says so by an error
        if "Not Supported" not in str(error):
            raise
        errors = 0
    return f"{errors} uncorrected ECC error(s) since the driver was loaded" if errors else ""


def _max_ratio() -> float:
    text = os.environ.get(BUSY)
    try:
        return float(text) if text else MAX_FOREIGN_RATIO
    except ValueError:
        raise InputError(f"{BUSY} is {text!r}; a share of a core is needed, such as 0.8") from None
