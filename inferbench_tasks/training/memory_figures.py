"""What the want of memory cost the measured steps: faults, swapping and stalls, from the epochs with instruments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.monitors.records import Recording
from inferbench_tasks.training.order import Answer, Epoch
from inferbench_tasks.training.phases import HEAD, MEASURED

_PART = HEAD.index("part")


def of_epochs(answers: Sequence[Answer], recording: Recording) -> dict[str, Any] | None:
    """None of a run whose ranks kept no count.

    ``major_faults``: of all ranks and their loader processes in a step, number; ``stalled_ratio``: the share of the
    time in which some task of ``scope`` (the ranks' cgroup, or the machine) waited for memory, None where the kernel
    tells none; ``swapped_in_bytes``, ``swapped_out_bytes``: of the machine in a step. ``least_available_bytes``: of the
    machine, ``most_resident_bytes``: of the ranks with their loaders, both within the measured windows;
    ``limit_bytes``: the least of their cgroups.
    """
    epochs = [[epoch for epoch in answer.epochs if _counts(epoch)] for answer in answers]
    if not all(epochs):
        return None
    limits = [answer.memory_limit_bytes for answer in answers if answer.memory_limit_bytes is not None]
    steps = min(sum(_steps(epoch) for epoch in of) for of in epochs)
    windows = [(epoch.window_start_ns or 0, epoch.window_end_ns or 0) for epoch in epochs[0]]
    return {
        "steps": steps,
        "major_faults": sum(e.memory.major_faults for of in epochs for e in of if e.memory) / steps,
        "stalled_ratio": _stalled_ratio(epochs[0]),
        "scope": epochs[0][-1].memory.scope if epochs[0][-1].memory else None,
        **{name: _each_step(epochs[0], name, steps) for name in ("swapped_in_bytes", "swapped_out_bytes")},
        "least_available_bytes": _extreme(recording, "host", "memory_available_bytes", windows, min),
        "most_resident_bytes": _extreme(recording, "server", "rss_bytes", windows, max),
        "limit_bytes": min(limits, default=None),
    }


def _counts(epoch: Epoch) -> bool:
    return epoch.kind == "synchronised" and epoch.memory is not None and _steps(epoch) > 0


def _steps(epoch: Epoch) -> int:
    return sum(row[_PART] == MEASURED for row in epoch.rows)


def _stalled_ratio(epochs: Sequence[Epoch]) -> float | None:
    """All ranks read the same counter, over nearly the same time."""
    stalls = [epoch.memory.stalled_s if epoch.memory else None for epoch in epochs]
    known = [stall for stall in stalls if stall is not None]
    length_s = sum((epoch.window_end_ns or 0) - (epoch.window_start_ns or 0) for epoch in epochs) / 1e9
    return sum(known) / length_s if length_s and len(known) == len(stalls) else None


def _each_step(epochs: Sequence[Epoch], name: str, steps: int) -> float | None:
    values = [getattr(epoch.memory, name) for epoch in epochs]
    return None if None in values else sum(values) / steps


def _extreme(
    recording: Recording, source: str, metric: str, windows: Sequence[tuple[int, int]], of: Any
) -> float | None:
    series = recording.get(source, metric)
    if series is None:
        return None
    values = [float(of(inside)) for window in windows if len(inside := series.within(*window))]
    return of(values) if values else None
