"""How sure the CPU time of a sample is, and whether it can be held against another run's.

A disturbed machine changes the CPU time of a sample less than any latency, since what waits uses none. Its interval
comes from blocks of the window: the ratio of CPU time to samples over them (a ratio estimate), with the spread of what
is left of each block. Neighbouring blocks are merged once and twice, and the widest interval counts: what goes on over
several blocks shows there.

CPU time is not work, though. A core at half its clock takes twice as long, and a hardware thread whose sibling is busy
up to twice as long too. Both are looked at; where the machine does not tell, that is said.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.metrics.base import Block, Measured
from inferbench_tasks.monitors.records import Recording

#: A block is no shorter: CPU time is sampled each 100 ms, and what a block's requests need may be used in the next.
_BLOCK_S = 0.5
_LEAST_BLOCKS, _MOST_BLOCKS = 8, 60
_PROBABILITY = 0.975


class CpuTime(Block):
    """The error of ``cpu_ms_per_sample``, the clock, and how busy the cores' other hardware threads were."""

    unit: ClassVar[str] = "ms/sample"
    formula: ClassVar[str] = (
        "CPU time / samples over blocks of the window, Student's t; clocks by the cores' use"
    )
    path: ClassVar[str] = "cpu_time"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{ci95: {ms_per_sample} or None, blocks, reason, clock: {mhz, known, text}, siblings}.

        ``clock.mhz``: the cores' mean by how much each was used. ``siblings``: {busy_ratio, known, text}, the share of
        the used time at most in which the other hardware thread of the same core was used as well.
        """
        interval, blocks, reason = _interval(measured)
        if measured.hosts:
            unknown = {
                "known": False,
                "text": f"the CPU time is of {len(measured.hosts)} hosts, each with its own",
            }
            clock, siblings = {"mhz": None, **unknown}, {"busy_ratio": None, **unknown}
        else:
            clock, siblings = _clock(measured), _siblings(measured)
        return {
            "ci95": None if interval is None else {"ms_per_sample": interval},
            "blocks": blocks,
            "reason": reason,
            "clock": clock,
            "siblings": siblings,
        }


def _interval(measured: Measured) -> tuple[list[float] | None, int, str | None]:
    window = measured.window
    series = measured.recording.get("server", "cpu_s_total")
    if series is None or series.increase(window.start_ns, window.end_ns) is None:
        return None, 0, "the server's CPU time was not recorded over the whole of the window"
    # Samples may begin a little late and end early; where there are none, nothing is known of a block.
    start_ns, end_ns = max(window.start_ns, int(series.t_ns[0])), min(window.end_ns, int(series.t_ns[-1]))
    seen_s = (end_ns - start_ns) / 1e9
    blocks = min(_MOST_BLOCKS, int(seen_s / _BLOCK_S))
    if blocks < _LEAST_BLOCKS:
        reason = f"{seen_s:.1f} s of the window with samples have {blocks} blocks of {_BLOCK_S:g} s, too few"
        return None, blocks, f"{reason} (at least {_LEAST_BLOCKS})"
    edges_ns = np.linspace(start_ns, end_ns, blocks + 1)
    cpu_s = np.diff(np.interp(edges_ns, series.t_ns, series.values))
    done = window.completed
    samples, _ = np.histogram(window.done_ns[done], bins=edges_ns, weights=window.batch_size[done])
    if not samples.sum():
        return None, blocks, "no request was answered in the window"
    bounds = ratio_interval(cpu_s * 1e3, samples)
    return [float(bound) for bound in bounds], blocks, None


def ratio_interval(amounts: NDArray[np.float64], counts: NDArray[np.float64]) -> tuple[float, float]:
    """The 95% interval of sum(amounts) / sum(counts) over blocks in their order (Cochran 1977, ratio estimates).

    Of the blocks as they are, and merged by two and by four as long as there are eight: the widest.
    """
    from scipy.special import stdtrit

    ratio = float(amounts.sum() / counts.sum())
    half = 0.0
    merged = 1
    while merged == 1 or (merged <= 4 and len(amounts) // merged >= _LEAST_BLOCKS):
        whole = len(amounts) // merged * merged
        left = (amounts - ratio * counts)[:whole].reshape(-1, merged).sum(axis=1)
        error = math.sqrt(len(left) * float(left.var(ddof=1))) / float(counts[:whole].sum())
        half = max(half, float(stdtrit(len(left) - 1, _PROBABILITY)) * error)
        merged *= 2
    return max(0.0, ratio - half), ratio + half


def _clock(measured: Measured) -> dict[str, Any]:
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    total = measured.recording.get("host", "frequency_mhz")
    values = total.within(start_ns, end_ns) if total is not None else np.array([])
    if not len(values):
        return {"mhz": None, "known": False, "text": "the machine reports no clock"}
    each = _by_core(measured.recording, "frequency_mhz", start_ns, end_ns)
    if measured.hardware.get("governor") is None and all(
        np.ptp(clocks) == 0 for clocks in (values, *each.values())
    ):
        text = f"the machine reports {values[0]:,.0f} MHz throughout, its nominal clock and not the real one"
        return {"mhz": None, "known": False, "text": text}
    if total is None or not total.covers(start_ns, end_ns) or (mean := total.mean(start_ns, end_ns)) is None:
        return {"mhz": None, "known": False, "text": "the clock was watched for a part of the load only"}
    mhz = mean
    used_s = {core: _used_s(measured.recording, core, start_ns, end_ns) for core in each}
    if each and sum(used_s.values()) > 0:
        mhz = sum(float(each[core].mean()) * used_s[core] for core in each) / sum(used_s.values())
    return {"mhz": mhz, "known": True, "text": f"{mhz:,.0f} MHz"}


def _siblings(measured: Measured) -> dict[str, Any]:
    hardware = measured.hardware
    groups = [group for group in hardware.get("siblings") or [] if len(group) > 1]
    if not groups:
        if hardware.get("hypervisor"):
            text = "a hypervisor hides which hardware threads share a core"
            return {"busy_ratio": None, "known": False, "text": text}
        if hardware.get("cores_physical") and hardware.get("cores_physical") == hardware.get("cores_logical"):
            return {"busy_ratio": 0.0, "known": True, "text": "no hardware threads share a core"}
        return {
            "busy_ratio": None,
            "known": False,
            "text": "which hardware threads share a core is not known",
        }
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    # Ticks are of 10 ms: in a second they tell a share to 1%.
    edges_ns = np.linspace(start_ns, end_ns, max(2, int(measured.window.duration_s) + 1))
    together_s = used_s = 0.0
    for group in groups:
        series = [measured.recording.get("host", f"core{core}_busy_s_total") for core in group]
        busy_s = [np.diff(np.interp(edges_ns, s.t_ns, s.values)) for s in series if s is not None]
        if len(busy_s) < len(group):
            return {"busy_ratio": None, "known": False, "text": "the use of each core was not recorded"}
        used_s += float(sum(each.sum() for each in busy_s))
        # Of two threads at most so long: the less busy one may have run only while the other did.
        together_s += float(2 * np.sort(np.array(busy_s), axis=0)[-2].sum())
    ratio = min(1.0, together_s / used_s) if used_s else 0.0
    return {
        "busy_ratio": ratio,
        "known": True,
        "text": f"both threads of a core busy in up to {ratio:.0%} of the time",
    }


def _by_core(recording: Recording, metric: str, start_ns: int, end_ns: int) -> dict[str, NDArray[np.float64]]:
    values = {}
    for (source, name), series in recording.series.items():
        if source == "host" and name.startswith("core") and name.endswith(f"_{metric}"):
            inside = series.within(start_ns, end_ns)
            if len(inside):
                values[name.removeprefix("core").removesuffix(f"_{metric}")] = inside
    return values


def _used_s(recording: Recording, core: str, start_ns: int, end_ns: int) -> float:
    series = recording.get("host", f"core{core}_busy_s_total")
    return (series.increase(start_ns, end_ns) or 0.0) if series is not None else 0.0
