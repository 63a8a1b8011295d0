"""How a load goes, while it goes: read from the records that the senders have flushed so far.

The senders spend nothing on it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.spool import Spool

_BINS_PER_OCTAVE = 32
_BINS = 45 * _BINS_PER_OCTAVE


#: Latencies are of the last seconds, of more where fewer answers came in them: a p99 of less would be their maximum.
WINDOW_NS, WINDOW_ANSWERS = 5_000_000_000, 100


@dataclass(frozen=True)
class Snapshot:
    """``rate_rps``: completions over the last second or so; latencies of the last ``seconds``, ms, within 2.2%.

    ``late_p99_ms``: how late the requests so far left, of all whose answers came. None: too few to say, or they are to
    wait.
    """

    done: int
    errors: int
    rate_rps: float
    p50_ms: float | None
    p99_ms: float | None
    in_flight: int = 0
    seconds: float = WINDOW_NS / 1e9
    late_p99_ms: float | None = None

    def text(self) -> str:
        """What people see of it, in one line."""
        latency = "" if self.p50_ms is None else f", p50 {self.p50_ms:.2f} ms"
        if self.p99_ms is not None:
            latency += f", p99 {self.p99_ms:.2f} ms in the last {max(1, round(self.seconds))} s"
        late = "" if self.late_p99_ms is None else f", sent late by {self.late_p99_ms:.2f} ms (p99)"
        return f"{self.rate_rps:,.0f} requests/s, {self.in_flight} in flight, {self.errors} errors{latency}{late}"


@dataclass(frozen=True)
class Told:
    """The figures in a snapshot's line."""

    rate_rps: float
    p50_ms: float | None
    p99_ms: float | None
    errors: int = 0
    late_p99_ms: float | None = None


_TOLD = re.compile(
    r"(?<![\d,])(?P<rate>\d[\d,]{0,15}) requests/s, \d{1,12} in flight, (?P<errors>\d{1,12}) errors"
    r"(?:, p50 (?P<p50>\d{1,12}\.\d\d) ms)?(?:, p99 (?P<p99>\d{1,12}\.\d\d) ms)?"
    r"(?: in the last \d{1,6} s)?(?:, sent late by (?P<late>\d{1,12}\.\d\d) ms)?"
)


def told(text: str) -> Told | None:
    """What ``Snapshot.text`` said, wherever it stands in a line; None where it does not."""
    found = _TOLD.search(text)
    if found is None:
        return None
    p50, p99, late = (float(found[name]) if found[name] else None for name in ("p50", "p99", "late"))
    return Told(float(found["rate"].replace(",", "")), p50, p99, int(found["errors"]), late)


class Live:
    """Follows the senders' spools while they are written.

    ``late``: whether a request that leaves after its moment is late. Where all are there from the start, or wait for
    one of so many connections as were asked for, none is.
    """

    def __init__(self, spools: list[Path], *, late: bool = True) -> None:
        self._tells_late = late
        self._read = dict.fromkeys(spools, 0)
        #: Of the window: when each part was read, and its answers by their latency; and their sum.
        self._parts: deque[tuple[int, NDArray[np.int64]]] = deque()
        self._counts = np.zeros(_BINS, np.int64)
        self._late = np.zeros(_BINS, np.int64)
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
            counts = _binned((rows["done_ns"] - rows["intended_ns"])[good])
            if good.any():
                self._parts.append((now_ns, counts))
                self._counts += counts
            was_sent = rows["sent_ns"] >= 0
            self._late += _binned((rows["sent_ns"] - rows["intended_ns"])[was_sent])
            self.done += len(rows)
            self.errors += int(len(rows) - good.sum())
        seconds = self._forget(now_ns)
        self._history.append((now_ns, self.done))
        while len(self._history) > 2 and now_ns - self._history[1][0] > 1_000_000_000:
            self._history.pop(0)
        (then_ns, before), (_, after) = self._history[0], self._history[-1]
        rate = (after - before) / ((now_ns - then_ns) / 1e9) if now_ns > then_ns else 0.0
        p50, p99 = _percentile_ms(self._counts, 0.5), _percentile_ms(self._counts, 0.99, WINDOW_ANSWERS)
        late = _percentile_ms(self._late, 0.99, WINDOW_ANSWERS) if self._tells_late else None
        return Snapshot(self.done, self.errors, rate, p50, p99, seconds=seconds, late_p99_ms=late)

    def _forget(self, now_ns: int) -> float:
        """Leave out what is older than the window, unless too few answers would remain; the seconds that it has."""
        left = int(self._counts.sum())
        while self._parts and now_ns - self._parts[0][0] >= WINDOW_NS:
            oldest = self._parts[0][1]
            if left - int(oldest.sum()) < WINDOW_ANSWERS:
                break
            left -= int(oldest.sum())
            self._counts -= oldest
            self._parts.popleft()
        return (now_ns - self._parts[0][0]) / 1e9 if self._parts else 0.0


def in_all(spools: Iterable[Path]) -> Snapshot:
    """What came of all requests of a load that is over, but for its rate and latencies."""
    done = errors = 0
    for spool in map(Spool, spools):
        good = spool.statuses.index(OK)
        for rows in spool.pieces():
            done, errors = done + len(rows), errors + int((rows["status"] != good).sum())
    return Snapshot(done, errors, 0.0, None, None)


def _binned(values_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    bins = (np.log2(np.maximum(values_ns, 1)) * _BINS_PER_OCTAVE).astype(np.int64)
    return np.bincount(np.minimum(bins, _BINS - 1), minlength=_BINS)


def _percentile_ms(counts: NDArray[np.int64], q: float, least: int = 1) -> float | None:
    total = int(counts.sum())
    if total < least:
        return None
    index = int(np.searchsorted(np.cumsum(counts), q * total))
    return float(2.0 ** ((index + 0.5) / _BINS_PER_OCTAVE)) / 1e6
