"""Whether the clocks were the same in all epochs: steps at 2.0 and at 3.0 GHz are no repetitions of each other.

Epochs are set beside each other, not samples: a gauge scatters, and an idle core's clock says nothing, so that a
processor's clock is the mean of its cores by what each was used (``metrics.cpu_time`` does so for serving).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inferbench_tasks.metrics.interference import CLOCK_WARN_RATIO, WAIT_RATIO
from inferbench_tasks.monitors.gpu import HELD_BACK
from inferbench_tasks.monitors.records import Recording, Series

#: A clock that is lower by so much makes an epoch's steps a quarter longer: what waiting for others may not do either.
CLOCK_QUARANTINE_RATIO = WAIT_RATIO / (1 + WAIT_RATIO)
CPU, GPU = "the processor's clock", "the GPU's clock"
#: A board at its power limit is at work; all other reasons are faults of its cooling or its supply.
_USUAL = ("software power cap",)
Window = tuple[int, int]


def look(
    recording: Recording, windows: Sequence[Window], kind: str, hardware: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """(findings, not watched) of the measured windows of a run's epochs; ``kind``: of the devices that it trains on."""
    findings, missing = [], []
    found = _moved(_processor(recording, windows, hardware), CPU, "host_clock")
    if found is None and kind == "cpu":
        missing.append(CPU)
    findings += found or []
    if kind == "gpu":
        clock = recording.get("gpu", "sm_clock_mhz")
        of_gpu = _moved([_mean(clock, window) for window in windows], GPU, "gpu_clock")
        if of_gpu is None:
            missing.append(GPU)
        findings += (of_gpu or []) + _held_back(recording, windows)
    return findings, missing


def _moved(clocks_mhz: Sequence[float | None], what: str, kind: str) -> list[dict[str, Any]] | None:
    """A finding if the epochs' clocks differ; None of fewer than two epochs with a clock."""
    known = [mhz for mhz in clocks_mhz if mhz]
    if len(known) < 2:
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
    recording: Recording, windows: Sequence[Window], hardware: Mapping[str, Any]
) -> list[float | None]:
    """MHz of each window; None where nothing was seen, or only a nominal clock that never moves."""
    whole = recording.get("host", "frequency_mhz")
    each = {
        name.removesuffix("_frequency_mhz"): series
        for (source, name), series in recording.series.items()
        if source == "host" and name.startswith("core") and name.endswith("_frequency_mhz")
    }
    seen = [series for series in (whole, *each.values()) if series is not None and len(series.values)]
    if hardware.get("governor") is None and all(np.ptp(series.values) == 0 for series in seen):
        return [None] * len(windows)
    return [_by_use(recording, each, window) or _mean(whole, window) for window in windows]


def _by_use(recording: Recording, each: Mapping[str, Series], window: Window) -> float | None:
    clocks_mhz, used_s = [], []
    for core, series in each.items():
        mhz, busy = _mean(series, window), recording.get("host", f"{core}_busy_s_total")
        grown = busy.increase(*window) if busy is not None else None
        if mhz is not None and grown:
            clocks_mhz.append(mhz)
            used_s.append(grown)
    return float(np.average(clocks_mhz, weights=used_s)) if used_s else None


def _mean(series: Series | None, window: Window) -> float | None:
    values = series.within(*window) if series is not None else ()
    return float(np.mean(values)) if len(values) else None


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
