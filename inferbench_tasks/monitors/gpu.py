"""NVIDIA GPUs by NVML: what the device did, what it drew, and what held it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.gpu_processes import GpuProcesses

#: Clock-event reasons that mean the device was held back: software and hardware thermal slow-down, hardware
#: slow-down, power brake, software power cap (nvml.h, nvmlClocksEventReason*).
HELD_BACK = {
    0x4: "software power cap",
    0x8: "hardware slow-down",
    0x20: "software thermal slow-down",
    0x40: "hardware thermal slow-down",
    0x80: "power brake",
}

#: How CUDA counts devices: by default the fastest first, which is none that NVML knows.
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


class GpuMonitor(Monitor):
    """The first GPU that the server sees (its ``CUDA_VISIBLE_DEVICES``), all its users together.

    NVML updates utilisation every 1/6 s to 1 s and power about every 20-100 ms by product; sampling faster
    repeats values. The energy counter (Volta and later) is exact between any two samples.
    """

    source: ClassVar[str] = "gpu"
    metrics: ClassVar[dict[str, str]] = {
        "utilisation_ratio": "share of time in which a kernel ran, 0 to 1",
        "memory_utilisation_ratio": "share of time in which memory was read or written, 0 to 1",
        "memory_used_bytes": "memory in use, bytes",
        "power_w": "power drawn, W",
        "energy_j_total": "energy drawn since the driver was loaded, J",
        "sm_clock_mhz": "clock of the SMs, MHz",
        "memory_clock_mhz": "clock of the memory, MHz",
        "temperature_c": "temperature, degrees Celsius",
        "held_back": "bit mask of the reasons that held the clocks back, see HELD_BACK",
        "power_limit_w": "power that the board may draw, W",
        "ecc_corrected_total": "corrected ECC errors since the driver was loaded",
        "ecc_uncorrected_total": "uncorrected ECC errors since the driver was loaded",
        "processes": "compute processes on the device, whoever's",
        "foreign_processes": "those that are neither the server's nor a neighbour's; not where PIDs are hidden",
        "beside_processes": "processes of the neighbours on a shared device, where PIDs are hidden",
    }

    def __init__(self, target: Target) -> None:
        import pynvml

        super().__init__(target)
        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._device = device_of(pynvml, target.pid)
        self._processes = GpuProcesses(target.pid, target.beside)
        self._missing: set[str] = set()

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why NVML can't be used; None where it can."""
        try:
            import pynvml
        except ImportError:
            return "the package nvidia-ml-py is not installed (extra: gpu)"
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return f"NVML: {error} (no NVIDIA driver here)"
        try:
            device_of(pynvml, target.pid)
        except (pynvml.NVMLError, ValueError) as error:
            return f"NVML: {error}"
        finally:
            pynvml.nvmlShutdown()
        return None

    def sample(self) -> dict[str, float]:
        """All that this product tells; what it does not is left out for good after the first refusal."""
        nvml, device = self._nvml, self._device
        readers: dict[str, Callable[[], Any]] = {
            "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(device),
            "memory": lambda: nvml.nvmlDeviceGetMemoryInfo(device).used,
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(device),
            "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device),
            "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
            "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
            "held_back": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device),
            "power_limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(device),
            "ecc_corrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(
                device, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC
            ),
            "ecc": lambda: nvml.nvmlDeviceGetTotalEccErrors(
                device, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
            "processes": lambda: self._processes.sample(
                {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(device)}
            ),
        }
        read: dict[str, Any] = {}
        for name, reader in readers.items():
            if name in self._missing:
                continue
            try:
                read[name] = reader()
            except nvml.NVMLError_NotSupported:
                self._missing.add(name)
        figures: dict[str, float] = {**read.get("processes", {})}
        if rates := read.get("utilisation"):
            figures |= {"utilisation_ratio": rates.gpu / 100, "memory_utilisation_ratio": rates.memory / 100}
        for name, metric, factor in (
            ("memory", "memory_used_bytes", 1.0),
            ("power", "power_w", 1e-3),
            ("energy", "energy_j_total", 1e-3),
            ("sm_clock", "sm_clock_mhz", 1.0),
            ("memory_clock", "memory_clock_mhz", 1.0),
            ("temperature", "temperature_c", 1.0),
            ("held_back", "held_back", 1.0),
            ("power_limit", "power_limit_w", 1e-3),
            ("ecc_corrected", "ecc_corrected_total", 1.0),
            ("ecc", "ecc_uncorrected_total", 1.0),
        ):
            if name in read:
                figures[metric] = float(read[name]) * factor
        return figures

    def close(self) -> None:
        """End the use of the driver by NVML."""
        self._nvml.nvmlShutdown()


def device_of(nvml: Any, pid: int, *, by_bus: bool = False) -> Any:
    """NVML's handle of the device that a process's environment names first, the machine's first without one.

    ``pid``: the server's. ValueError where an index does not tell the device: of several, NVML counts by PCI bus,
    as CUDA does only if it is told to (``by_bus``: where it is not told anything, it will be).
    """
    environment = ({ORDER: BY_BUS} if by_bus else {}) | _environment(pid)
    first = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    if nvml.nvmlDeviceGetCount() > 1 and environment.get(ORDER) != BY_BUS:
        raise ValueError(
            f"which of several GPUs the server uses is not known: name it by its UUID in CUDA_VISIBLE_DEVICES, or set "
            f"{ORDER}={BY_BUS}"
        )
    return nvml.nvmlDeviceGetHandleByIndex(int(first or 0))


def _environment(pid: int) -> dict[str, str]:
    """The process's; our own, the best guess, where it is another user's or has ended."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return dict(os.environ)
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}
