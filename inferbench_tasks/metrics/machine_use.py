"""How much of the cores that a run may use was in use, by anybody, and how much of them the hypervisor took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferbench_tasks.monitors.records import Recording


@dataclass(frozen=True)
class MachineUse:
    """Of ``cores`` cores between two moments: CPU time in use and stolen, s; None where it was not recorded.

    ``own``: which they are; empty: the machine's.
    """

    cores: int
    busy_s: float | None
    steal_s: float | None
    own: tuple[int, ...] = ()


def machine_use(recording: Recording, hardware: Mapping[str, Any], start_ns: int, end_ns: int) -> MachineUse:
    """Of the cores that the run was pinned to, where it was and each of them was recorded; else of the machine.

    A worker's jobs have cores of their own: what happens on the others is no interference.
    """
    cores = hardware.get("cores_logical") or 1
    mine = hardware.get("cores_allowed") or []

    def grown(metric: str) -> float | None:
        series = recording.get("host", metric)
        return series.increase(start_ns, end_ns) if series else None

    def on_my_cores(metric: str) -> float | None:
        known = [value for core in mine if (value := grown(f"core{core}_{metric}")) is not None]
        return sum(known) if 0 < len(mine) < cores and len(known) == len(mine) else None

    busy_s, steal_s = on_my_cores("busy_s_total"), on_my_cores("steal_s_total")
    if busy_s is not None and steal_s is not None:
        return MachineUse(len(mine), busy_s, steal_s, tuple(mine))
    return MachineUse(cores, grown("cpu_busy_s_total"), grown("cpu_steal_s_total"))
