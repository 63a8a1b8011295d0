"""Whether the clocks were the same in all epochs: steps at 2.0 and at 3.0 GHz are no repetitions of each other.

Epochs are set beside each other, not samples: a gauge scatters. Short epochs are joined until a gauge has samples
enough in them. An idle core's clock says nothing: a core's sample counts where the core was busy at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.metrics.interference import CLOCK_WARN_RATIO
from inferbench_tasks.metrics.wait_bounds import WAIT_RATIO
from inferbench_tasks.monitors.gpu import HELD_BACK
from inferbench_tasks.monitors.records import Recording, Series

#: A clock that is lower by so much makes an epoch's steps a quarter longer: what waiting for others may not do either.
CLOCK_QUARANTINE_RATIO = WAIT_RATIO / (1 + WAIT_RATIO)
CPU, GPU = "the processor's clock", "the GPU's clock"
#: A board at its power limit is at work; all other reasons are faults of its cooling or its supply.
_USUAL = ("software power cap",)
#: Epochs are joined to so much time, s: a processor's clock is read once a second, a GPU's ten times.
_CPU_STRETCH_S, _GPU_STRETCH_S = 4.0, 1.0
#: With fewer samples nothing is known of a clock.
_LEAST_SAMPLES = 3
#: A core that was used for less than this share of the time around a sample of its clock, ns to both sides, was idle.
_BUSY_RATIO, _AROUND_NS = 0.5, 100_000_000
Window = tuple[int, int]


def look(
    recording: Recording,
    windows: Sequence[Window],
    kind: str,
    hardware: Mapping[str, Any],
    devices: int = 1,
) -> tuple[list[dict[str, Any]], list[str]]:
    """(findings, not watched) of the measured windows of a run's epochs.

    ``kind``, ``devices``: of the devices that it trains on, and how many; of several GPUs the first alone is watched.
    """
    findings, missing = [], []
    found = _moved(_processor(recording, joined(windows, _CPU_STRETCH_S), hardware), CPU, "host_clock")
    if found is None and kind == "cpu":
        missing.append(CPU)
    findings += found or []
    if kind == "gpu":
        clock = recording.get("gpu", "sm_clock_mhz")
        stretches = joined(windows, _GPU_STRETCH_S)
        of_gpu = _moved([_mean(clock, stretch) for stretch in stretches], GPU, "gpu_clock")
        if of_gpu is None:
            missing.append(GPU)
        if devices > 1:
            missing.append(f"clocks and throttling of the other {devices - 1} GPU(s)")
        findings += (of_gpu or []) + _held_back(recording, windows)
    return findings, missing


def joined(windows: Sequence[Window], least_s: float) -> list[list[Window]]:
    """Windows that follow each other, together ``least_s`` or more; what is left at the end goes to the last."""
    stretches: list[list[Window]] = []
    since_s = least_s
    for start_ns, end_ns in windows:
        if since_s >= least_s:
            stretches.append([])
            since_s = 0.0
        stretches[-1].append((start_ns, end_ns))
        since_s += (end_ns - start_ns) / 1e9
    if len(stretches) > 1 and since_s < least_s:
        rest = stretches.pop()
        stretches[-1] += rest
    return stretches


def _moved(clocks_mhz: Sequence[float | None], what: str, kind: str) -> list[dict[str, Any]] | None:
    """A finding if the stretches' clocks differ; None where fewer than two of them, or than half, have one."""
    known = [mhz for mhz in clocks_mhz if mhz]
    if len(known) < max(2, len(clocks_mhz) / 2):
        return None
    low, high = min(known), max(known)
    ratio = 1 - low / high
    if ratio < CLOCK_WARN_RATIO:
        return []
    grave = ratio >= CLOCK_QUARANTINE_RATIO
    text = (
        f"{what} was {low:,.0f} MHz in one epoch and {high:,.0f} MHz in another: {ratio:.0%} lower (at most "
        f"{CLOCK_QUARANTINE_RATIO:.0%})"
    )
    bound = CLOCK_QUARANTINE_RATIO if grave else CLOCK_WARN_RATIO
    return [{"kind": kind, "value": ratio, "bound": bound, "quarantine": grave, "text": text}]


def _processor(
    recording: Recording, stretches: Sequence[Sequence[Window]], hardware: Mapping[str, Any]
) -> list[float | None]:
    """MHz of each stretch; None where too little was seen, or only a nominal clock that never moves."""
    whole = recording.get("host", "frequency_mhz")
    each = {
        name.removesuffix("_frequency_mhz"): series
        for (source, name), series in recording.series.items()
        if source == "host" and name.startswith("core") and name.endswith("_frequency_mhz")
    }
    seen = [series for series in (whole, *each.values()) if series is not None and len(series.values)]
    if hardware.get("governor") is None and all(np.ptp(series.values) == 0 for series in seen):
        return [None] * len(stretches)
    cores = [
        (series, busy)
        for core, series in each.items()
        if (busy := recording.get("host", f"{core}_busy_s_total")) is not None and len(busy.values)
    ]
    if not cores:
        return [_mean(whole, stretch) for stretch in stretches]
    return [_of_busy_cores(cores, stretch) for stretch in stretches]


def _of_busy_cores(cores: Sequence[tuple[Series, Series]], stretch: Sequence[Window]) -> float | None:
    """The mean clock of (clock, use) of cores, each sample by the core's use around its moment, idle ones left out."""
    clocks_mhz, used, moments = [], [], set()
    for clock, busy in cores:
        inside = _inside(clock, stretch)
        t_ns, mhz = clock.t_ns[inside], clock.values[inside]
        ends = np.interp([t_ns - _AROUND_NS, t_ns + _AROUND_NS], busy.t_ns, busy.values)
        ratio = (ends[1] - ends[0]) / (2 * _AROUND_NS / 1e9)
        at_work = ratio >= _BUSY_RATIO
        clocks_mhz += mhz[at_work].tolist()
        used += ratio[at_work].tolist()
        moments |= set(t_ns[at_work].tolist())
    return float(np.average(clocks_mhz, weights=used)) if len(moments) >= _LEAST_SAMPLES else None


def _mean(series: Series | None, stretch: Sequence[Window]) -> float | None:
    values = series.values[_inside(series, stretch)] if series is not None else ()
    return float(np.mean(values)) if len(values) >= _LEAST_SAMPLES else None


def _inside(series: Series, stretch: Sequence[Window]) -> NDArray[np.bool_]:
    """Which samples lie within one of the windows."""
    inside = np.zeros(len(series.t_ns), np.bool_)
    for start_ns, end_ns in stretch:
        inside |= (series.t_ns >= start_ns) & (series.t_ns <= end_ns)
    return inside


def _held_back(recording: Recording, windows: Sequence[Window]) -> list[dict[str, Any]]:
    held = recording.get("gpu", "held_back")
    mask = 0
    for window in windows:
        for value in held.within(*window) if held is not None else ():
            mask |= int(value)
    return [
        {
            "kind": "gpu_throttling",
            "value": 1.0,
            "bound": 1.0,
            "quarantine": name not in _USUAL,
            "text": f"the GPU was held back: {name}",
        }
        for bit, name in HELD_BACK.items()
        if mask & bit
    ]
