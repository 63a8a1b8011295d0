"""Energy as codecarbon estimates it where nothing measures it (``codecarbon_estimate``), from our own recording.

codecarbon (mlco2/codecarbon 3.3.2, MIT), mode ``cpu_load``, tracked by machine: power = TDP x (0.1 + 0.9 x load^3),
load = the busy share of all cores; where no TDP is known, 4 W per hardware thread. It is computed here and not by
codecarbon itself, which would sample beside our monitors and look things up in the internet, and which counts a
whole processor for the few cores that a virtual machine has. Memory and the rest of the machine are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.catalogue import find_hardware
from inferbench_tasks.metrics.base import Measured

#: codecarbon's DEFAULT_POWER_PER_CORE, which it multiplies by the number of threads.
DEFAULT_WATT_PER_THREAD = 4.0
#: Twice too much or half are both possible: the curve is one for all processors.
UNCERTAINTY_RATIO = 1.0
SCOPE = "all cores of this machine by their load, idle power and other processes included; a model, not a measurement"


def power_w(tdp_w: float, load: NDArray[np.float64]) -> NDArray[np.float64]:
    """codecarbon's curve; ``load`` from 0 to 1."""
    watts: NDArray[np.float64] = tdp_w * (0.1 + 0.9 * np.clip(load, 0, 1) ** 3)
    return watts


def codecarbon_estimate(measured: Measured) -> tuple[float | None, str]:
    """Joules in the window, or None and why."""
    series = measured.recording.get("host", "cpu_ratio")
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    inside = (series.t_ns >= start_ns) & (series.t_ns <= end_ns) if series is not None else np.zeros(0, bool)
    if series is None or not inside.any():
        unavailable = measured.recording.about.get("unavailable") or {}
        return None, str(unavailable.get("host", "the machine's load was not sampled"))
    if not series.covers(start_ns, end_ns):
        return None, "the samples do not cover the window"
    tdp_w = machine_tdp_w(measured)
    if tdp_w is None:
        return None, "the number of this machine's cores is not known"
    # Each sample is the mean load since the one before, so its power holds for that time; of a long load later ones are
    # further apart.
    within_ns = np.diff(np.clip(series.t_ns, start_ns, end_ns)).astype(np.float64)
    mean_w = float(np.average(power_w(tdp_w, series.values[1:].astype(float)), weights=within_ns))
    return mean_w * (end_ns - start_ns) / 1e9, ""


def machine_tdp_w(measured: Measured) -> float | None:
    """The TDP of the physical cores that this machine has by ``configs/hardware.yaml``, else codecarbon's default."""
    threads = measured.hardware.get("cores_logical")
    # Hardware threads are no cores: where nobody knows how many share one, their watts aren't known either.
    cores = measured.hardware.get("cores_physical")
    row = find_hardware(str(measured.hardware.get("cpu")))
    if row is not None and row.watt_per_core is not None and cores:
        return row.watt_per_core * int(cores)
    return DEFAULT_WATT_PER_THREAD * int(threads) if threads else None
