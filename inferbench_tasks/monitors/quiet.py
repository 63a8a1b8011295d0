"""Whether the machine is quiet enough to measure, looked at before a load, and waiting until it is.

A look is a thread that does what a small server does: it sleeps 2 ms and needs a core for 1 ms. How long the kernel
lets it wait for one, and what the hypervisor took meanwhile, is what a load that begins now would meet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferbench_tasks.monitors.schedstat import parse
from inferbench_tasks.monitors.steal import STEAL_COLUMN

LOOK_S = 0.5
#: A look's threshold for quiet: 5% of the turns waited no longer than this for a core, and so much was stolen at most.
#: A wait of 1 ms is what a run's ledger lets pass (``metrics.interference``), and a look is too short to see less
#: than 2% of steal, which is counted in ticks of 10 ms.
WAIT_MS, STEAL_RATIO = 1.0, 0.02
_SLEEP_S, _WORK_S = 0.002, 0.001
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """What one look saw. ``wait_ms``: the wait for a core that 5% of its turns exceeded; None where the kernel keeps no
    such statistics. ``steal_ratio``: the share of all cores' time that the hypervisor took.
    """

    wait_ms: float | None
    steal_ratio: float

    @property
    def quiet(self) -> bool:
        """Whether a load that begins now would meet little of others."""
        return (self.wait_ms or 0.0) <= WAIT_MS and self.steal_ratio <= STEAL_RATIO

    @property
    def text(self) -> str:
        """What is not quiet about it, for people; what was seen where it is."""
        parts = []
        if self.wait_ms is not None and (self.quiet or self.wait_ms > WAIT_MS):
            parts.append(
                f"5% of the waits for a core take {self.wait_ms:.1f} ms or more (quiet: {WAIT_MS:g} ms)"
            )
        if self.steal_ratio > STEAL_RATIO:
            parts.append(f"the hypervisor takes {self.steal_ratio:.0%} of the CPU (quiet: {STEAL_RATIO:.0%})")
        return "; ".join(parts)


@dataclass(frozen=True)
class Patience:
    """What came of waiting: the ``last`` look, and how long it took until then, s."""

    last: Look
    waited_s: float

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for a result."""
        last = self.last
        return {
            "quiet": last.quiet, "waited_s": round(self.waited_s, 1), "wait_ms": last.wait_ms,
            "steal_ratio": last.steal_ratio,
        }  # fmt: skip

    @property
    def warning(self) -> str | None:
        """What a reader of the figures should know; None where the machine was quiet."""
        if self.last.quiet:
            return None
        waited = f"{self.waited_s:.0f} s were waited for it"
        return f"the machine was not quiet when the load began, {waited}: {self.last.text}"


def look(duration_s: float = LOOK_S) -> Look:
    """Look at the machine for so long."""
    waits_ns: list[int] = []
    began, stolen_s = time.monotonic(), _stolen_s()
    before_ns = _waited_ns()
    while time.monotonic() < began + duration_s:
        time.sleep(_SLEEP_S)
        enough = time.thread_time() + _WORK_S
        while time.thread_time() < enough:
            pass
        now_ns = _waited_ns()
        if now_ns is not None and before_ns is not None:
            waits_ns.append(now_ns - before_ns)
        before_ns = now_ns
    # What was stolen is of all cores that the machine has, whichever of them are ours.
    cores_s = (time.monotonic() - began) * (os.cpu_count() or 1)
    wait_ms = float(np.quantile(waits_ns, 0.95)) / 1e6 if waits_ns else None
    return Look(wait_ms, (_stolen_s() - stolen_s) / cores_s)


def wait_for_quiet(
    limit_s: float,
    *,
    progress: Callable[[float, str], None],
    cancelled: Callable[[], bool],
    look: Callable[[], Look] = look,
    now_s: Callable[[], float] = time.monotonic,
) -> Patience:
    """Look until the machine is quiet, ``limit_s`` have passed, or the user cancels; at least once.

    ``progress``: gets the seconds that were waited and what is not quiet.
    """
    began_s = now_s()
    while True:
        last = look()
        waited_s = now_s() - began_s
        if last.quiet or waited_s >= limit_s or cancelled():
            return Patience(last, waited_s)
        progress(waited_s, last.text)


def _waited_ns() -> int | None:
    """How long this thread has waited for a core in its life."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return parse(file.read(100)).waited_ns
    except (OSError, ValueError):
        return None


def _stolen_s() -> float:
    with open("/proc/stat", "rb", buffering=0) as file:
        return int(file.read(400).split(b"\n", 1)[0].split()[STEAL_COLUMN]) / _TICKS
