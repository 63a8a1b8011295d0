"""The quiet windows of a load: what is left of it without disturbances and without what they left behind.

After a disturbance the requests that piled up are still to be answered. So a window begins only when everything that
was in flight at the disturbance's end is answered, and no more is in flight than there was when it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.segmented import Segmented
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.disturbances import Disturbance

#: What the time after a disturbance is called, until the backlog is what it was.
RECOVERY = "recovery"
_NEVER_NS = np.iinfo(np.int64).max
_PIECE = 4096


@dataclass(frozen=True)
class QuietWindows:
    """[start, end) each, in the order of time; the last one's end is ``_NEVER_NS`` where nothing ended it.

    ``cut_s``: what was cut of the measured window, by cause, s.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    cut_s: dict[str, float]

    def time_s(self, window: Window) -> float:
        """How much of the measured window they are, s."""
        return float((self.end_ns.clip(max=window.end_ns) - self.start_ns).clip(0).sum()) / 1e9

    def longest_s(self, window: Window) -> float:
        """The longest, s; 0.0 without any."""
        return float((self.end_ns.clip(max=window.end_ns) - self.start_ns).max(initial=0)) / 1e9

    def holds(self, window: Window) -> NDArray[np.bool_]:
        """Which requests of the measured window were meant to leave in one of them."""
        if not len(self.start_ns):
            return np.zeros(len(window.measured), np.bool_)
        index = np.searchsorted(self.start_ns, window.intended_ns, "right") - 1
        inside: NDArray[np.bool_] = (index >= 0) & (window.intended_ns < self.end_ns[index.clip(0)])
        return window.measured & inside

    def requests(self, window: Window, kept: NDArray[np.bool_]) -> Segmented:
        """The good answers to those (``holds``)."""
        good = kept & window.ok
        intended_ns = window.intended_ns[good]
        index = np.searchsorted(self.start_ns, intended_ns, "right") - 1
        room_ms = np.where(self.end_ns[index] == _NEVER_NS, np.inf, (self.end_ns[index] - intended_ns) / 1e6)
        length_ms = (self.end_ns.clip(max=window.end_ns) - self.start_ns)[index] / 1e6
        return Segmented((window.done_ns[good] - intended_ns) / 1e6, room_ms, index, length_ms)


def quiet_windows(window: Window, disturbed: Sequence[Disturbance]) -> QuietWindows:
    """What is left of the measured window. ``disturbed``: in the order of their starts."""
    backlog = _Backlog(window)
    starts: list[int] = []
    ends: list[int] = []
    cut_s: dict[str, float] = {}

    def cut(cause: str, start_ns: int, end_ns: int) -> None:
        length_ns = min(end_ns, window.end_ns) - max(start_ns, window.start_ns)
        if length_ns > 0:
            cut_s[cause] = cut_s.get(cause, 0.0) + length_ns / 1e9

    free_ns = window.start_ns  # From here on nothing is cut so far.
    index = 0
    while index < len(disturbed):
        first = disturbed[index]
        before = backlog.at(first.start_ns)
        if first.start_ns > free_ns:
            starts.append(free_ns)
            ends.append(first.start_ns)
        reached_ns = max(first.start_ns, free_ns) if index == 0 else first.start_ns
        recovered_ns = reached_ns
        # What begins before the backlog is what it was belongs to it.
        while index < len(disturbed) and disturbed[index].start_ns <= recovered_ns:
            one = disturbed[index]
            if one.end_ns > reached_ns:
                if one.start_ns > reached_ns:
                    cut(RECOVERY, reached_ns, one.start_ns)
                cut(one.cause, max(reached_ns, one.start_ns), one.end_ns)
                reached_ns = one.end_ns
                recovered_ns = backlog.recovered_ns(reached_ns, before)
            index += 1
        cut(RECOVERY, reached_ns, recovered_ns)
        free_ns = max(free_ns, recovered_ns)
        if free_ns >= window.end_ns:
            break
    if free_ns < window.end_ns:
        starts.append(free_ns)
        ends.append(_NEVER_NS)
    inside = [(a, b) for a, b in zip(starts, ends, strict=True) if a < window.end_ns and b > window.start_ns]
    return QuietWindows(
        np.array([a for a, _ in inside], np.int64), np.array([b for _, b in inside], np.int64), cut_s
    )


class _Backlog:
    """Requests in flight; what never ended is left out, for it never comes to an end."""

    def __init__(self, window: Window) -> None:
        ended = (window.sent_ns >= 0) & (window.done_ns >= 0)
        sent_ns, done_ns = window.sent_ns[ended], window.done_ns[ended]
        order = np.argsort(sent_ns, kind="stable")
        self._sent_ns = sent_ns[order]
        #: When all requests that were sent up to there were answered.
        self._answered_ns = np.maximum.accumulate(done_ns[order]) if len(order) else done_ns
        self._done_ns = np.sort(done_ns)

    def at(self, t_ns: int) -> int:
        """How many are in flight."""
        sent = int(np.searchsorted(self._sent_ns, t_ns, "right"))
        return sent - int(np.searchsorted(self._done_ns, t_ns, "right"))

    def recovered_ns(self, end_ns: int, level: int) -> int:
        """From when on at most ``level`` are in flight and none that was sent before ``end_ns``."""
        sent = int(np.searchsorted(self._sent_ns, end_ns, "right"))
        from_ns = max(end_ns, int(self._answered_ns[sent - 1])) if sent else end_ns
        if self.at(from_ns) <= level:
            return from_ns
        place = int(np.searchsorted(self._done_ns, from_ns, "right"))
        while place < len(self._done_ns):
            done_ns = self._done_ns[place : place + _PIECE]
            left = np.searchsorted(self._sent_ns, done_ns, "right") - np.arange(
                place + 1, place + 1 + len(done_ns)
            )
            if (left <= level).any():
                return int(done_ns[int(np.argmax(left <= level))])
            place += _PIECE
        return _NEVER_NS
