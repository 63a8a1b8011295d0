"""When a machine was disturbed, by its own recording alone: no latency is looked at here.

A rule that saw latencies would cut what is slow and call the rest quiet. This one knows the steps of the recording (40
ms, longer ones in a load of more than 24 minutes), what others and the hypervisor took in each, and thresholds that are
the same for every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.metrics.waiting import longest_waits, waits_between
from inferbench_tasks.monitors.base import ROUNDS_PER_RATE
from inferbench_tasks.monitors.records import Recording, Series

#: A thread of server or sender waited so long for a core behind others.
WAIT_S = 0.001
#: Others used so much of all cores: what they do to caches and memory shows nowhere else.
FOREIGN_RATIO = 0.10
#: So much of the time something waited for memory.
MEMORY_PRESSURE_RATIO = 0.10
#: Interrupts came so many times as often as in nine steps of ten; their number depends on the load itself, too.
STORM_FACTOR, STORM_QUANTILE = 4.0, 0.9
#: Between two readings that are further apart nobody watched: five times as far as they are meant to be, which doubles
#: in a long load (``ROUNDS_PER_RATE``).
UNWATCHED_S = 0.2

Steps = NDArray[np.float64]


@dataclass(frozen=True)
class Disturbance:
    """From ``start_ns`` to ``end_ns`` on CLOCK_MONOTONIC; ``cause``: what showed it first."""

    start_ns: int
    end_ns: int
    cause: str


def disturbances(
    recording: Recording, start_ns: int, end_ns: int, cores: int | None
) -> list[Disturbance] | None:
    """Those of the whole recording, in the order of their starts, which may overlap.

    None where waits were not recorded over the whole of the measured window [start, end), but for its very ends.
    ``cores``: those of the machine; None where the run had only some of them to itself, so that what others do on the
    rest of them is none of its business.
    """
    waits = longest_waits(recording, start_ns, end_ns)
    if waits is None or len(waits.t_ns) < 2:
        return None
    parts = [_waits(recording, waits), _unwatched(waits, start_ns, end_ns), _steal(recording)]
    parts += [_memory(recording), _storms(recording)]
    if cores is not None:
        parts.append(_foreign(recording, cores))
    return sorted((one for part in parts for one in part), key=lambda one: (one.start_ns, one.end_ns))


def _waits(recording: Recording, waits: Series) -> Iterator[Disturbance]:
    """A wait shows in the step in which it ended; of it counts as others' what they ran meanwhile, at most."""
    t_ns = waits.t_ns
    foreign = recording.get("wait", "foreign_s_total")
    if foreign is not None:
        began_ns = t_ns[:-1] - waits.values[1:] * 1e9
        ran_s = np.interp(t_ns[1:], foreign.t_ns, foreign.values)
        ran_s = ran_s - np.interp(began_ns, foreign.t_ns, foreign.values)
        wait_s = np.minimum(waits.values[1:], ran_s)
        start_ns, end_ns = t_ns[:-1], t_ns[1:]
    else:
        # Where the kernel does not tell exactly what others used: their share of the CPU in the second around it.
        share = waits_between(recording, int(t_ns[0]), int(t_ns[-1]))
        if share is None:
            wait_s, start_ns, end_ns = waits.values[1:], t_ns[:-1], t_ns[1:]
        else:
            wait_s, end_ns = share.wait_s, share.end_ns
            start_ns = (end_ns - share.step_s * 1e9).astype(np.int64)
    for index in np.flatnonzero(wait_s >= WAIT_S):
        began_ns_of = int(start_ns[index] - wait_s[index] * 1e9)
        yield Disturbance(began_ns_of, int(end_ns[index]), "wait for a core")


def _unwatched(waits: Series, start_ns: int, end_ns: int) -> Iterator[Disturbance]:
    moments_ns = waits.t_ns
    # By the reading before each gap.
    most_ns = UNWATCHED_S * 1e9 * 2.0 ** (np.arange(len(moments_ns)) // ROUNDS_PER_RATE)
    if start_ns < moments_ns[0]:
        moments_ns, most_ns = np.append(start_ns, moments_ns), np.append(most_ns[0], most_ns)
    if end_ns > moments_ns[-1]:
        moments_ns, most_ns = np.append(moments_ns, end_ns), np.append(most_ns, most_ns[-1])
    for index in np.flatnonzero(np.diff(moments_ns) > most_ns[:-1]):
        yield Disturbance(int(moments_ns[index]), int(moments_ns[index + 1]), "nobody watched")


def _steal(recording: Recording) -> Iterator[Disturbance]:
    """The kernel counts it in ticks of 10 ms for each core, so that some of a tick may be of the step before."""
    series = recording.get("wait", "steal_s_total")
    if series is None:
        return
    t_ns = series.t_ns
    for index in np.flatnonzero(np.diff(series.values) > 0).tolist():
        yield Disturbance(int(t_ns[max(0, index - 1)]), int(t_ns[index + 1]), "steal")


def _foreign(recording: Recording, cores: int) -> Iterator[Disturbance]:
    yield from _above(recording, "foreign_s_total", FOREIGN_RATIO * cores, "others' use of the CPU")


def _memory(recording: Recording) -> Iterator[Disturbance]:
    yield from _above(recording, "memory_pressure_s_total", MEMORY_PRESSURE_RATIO, "memory pressure")


def _storms(recording: Recording) -> Iterator[Disturbance]:
    series = recording.get("wait", "interrupts_total")
    if series is None or len(series.t_ns) < 2:
        return
    usual = float(np.quantile(_rates(series), STORM_QUANTILE))
    yield from _above(recording, "interrupts_total", STORM_FACTOR * usual, "interrupts")


def _above(recording: Recording, metric: str, rate: float, cause: str) -> Iterator[Disturbance]:
    """The steps in which a counter grew at that rate per second, or faster."""
    series = recording.get("wait", metric)
    if series is None or len(series.t_ns) < 2:
        return
    rates = _rates(series)
    for index in np.flatnonzero((rates >= rate) & (rates > 0)):
        yield Disturbance(int(series.t_ns[index]), int(series.t_ns[index + 1]), cause)


def _rates(series: Series) -> Steps:
    return np.asarray(np.diff(series.values) / np.maximum(np.diff(series.t_ns) / 1e9, 1e-6))
