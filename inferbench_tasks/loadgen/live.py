"""How a load goes, while it goes: read from the records that the senders have flushed so far.

The senders spend nothing on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.records import OK
from inferbench_tasks.loadgen.spool import Spool

_BINS_PER_OCTAVE = 32
_BINS = 45 * _BINS_PER_OCTAVE


@dataclass(frozen=True)
class Snapshot:
    """``rate_rps``: completions over the last second or so; latencies so far, ms, within 2.2%."""

    done: int
    errors: int
    rate_rps: float
    p50_ms: float | None
    p99_ms: float | None
    in_flight: int = 0

    def text(self) -> str:
        """What people see of it, in one line."""
        latency = "" if self.p50_ms is None else f", p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms"
        return f"{self.rate_rps:,.0f} requests/s, {self.in_flight} in flight, {self.errors} errors{latency}"


@dataclass(frozen=True)
class Told:
    """The figures in a snapshot's line."""

    rate_rps: float
    p50_ms: float | None
    p99_ms: float | None


_TOLD = re.compile(
    r"(?<![\d,])(?P<rate>\d[\d,]{0,15}) requests/s, \d+ in flight, \d+ errors"
    r"(?:, p50 (?P<p50>\d{1,12}\.\d\d) ms, p99 (?P<p99>\d{1,12}\.\d\d) ms)?"
)


def told(text: str) -> Told | None:
    """What ``Snapshot.text`` said, wherever it stands in a line; None where it does not."""
    found = _TOLD.search(text)
    if found is None:
        return None
    p50, p99 = (float(value) if value else None for value in (found["p50"], found["p99"]))
    return Told(float(found["rate"].replace(",", "")), p50, p99)


class Live:
    """Follows the senders' spools while they are written."""

    def __init__(self, spools: list[Path]) -> None:
        self._read = dict.fromkeys(spools, 0)
        self._counts = np.zeros(_BINS, np.int64)
        self._history: list[tuple[int, int]] = []
        self.done = 0
        self.errors = 0

    def update(self, now_ns: int) -> Snapshot:
        """Read what is new. Latencies are those of good answers, from the intended moment."""
        for path, start in self._read.items():
            try:
                spool = Spool(path)
            except StorageError:
                continue  # not begun yet
            if spool.rows <= start:
                continue
            rows = spool.read(start, spool.rows)
            self._read[path] = start + len(rows)
            good = rows["status"] == spool.statuses.index(OK)
            latency_ns = (rows["done_ns"] - rows["intended_ns"])[good]
            bins = (np.log2(np.maximum(latency_ns, 1)) * _BINS_PER_OCTAVE).astype(np.int64)
            self._counts += np.bincount(np.minimum(bins, _BINS - 1), minlength=_BINS)
            self.done += len(rows)
            self.errors += int(len(rows) - good.sum())
        self._history.append((now_ns, self.done))
        while len(self._history) > 2 and now_ns - self._history[1][0] > 1_000_000_000:
            self._history.pop(0)
        (then_ns, before), (_, after) = self._history[0], self._history[-1]
        rate = (after - before) / ((now_ns - then_ns) / 1e9) if now_ns > then_ns else 0.0
        return Snapshot(self.done, self.errors, rate, self._percentile_ms(0.5), self._percentile_ms(0.99))

    def _percentile_ms(self, q: float) -> float | None:
        total = int(self._counts.sum())
        if not total:
            return None
        index = int(np.searchsorted(np.cumsum(self._counts), q * total))
        return float(2.0 ** ((index + 0.5) / _BINS_PER_OCTAVE)) / 1e6
