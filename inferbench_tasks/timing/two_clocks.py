"""How far another host's clock is from ours: bounds, from questions for the time that were answered.

A question leaves at ``sent`` and its answer is here at ``received``, by our clock; the other host read its own at
``arrived`` and ``answered`` in between. Whichever way took how much of the time, at a moment between ``sent`` and
``received``

    answered - received  <=  its clock - ours  <=  arrived - sent

Several questions are intersected (Marzullo 1984), each widened by what two clocks may drift apart meanwhile. The middle
of what is left is told, with half of its width as the error: a bound, no standard deviation.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

#: So much may two clocks drift apart: each is slewed by at most 500 ppm (Linux's adjtimex).
DRIFT = 1000e-6


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its answer, ns: ``sent`` and ``received`` by our clock, the others by the other host's."""

    sent_ns: int
    arrived_ns: int
    answered_ns: int
    received_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Both ways, without the time that the other host took to answer."""
        return self.received_ns - self.sent_ns - (self.answered_ns - self.arrived_ns)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The other clock less ours lies between the two."""

    low_ns: int
    high_ns: int

    @property
    def middle_ns(self) -> float:
        return (self.low_ns + self.high_ns) / 2

    @property
    def error_ns(self) -> float:
        """At most so much is the middle wrong."""
        return (self.high_ns - self.low_ns) / 2


def bounds_at(exchanges: Sequence[Exchange], at_ns: int) -> Bounds | None:
    """What all exchanges allow at a moment of our clock; None where they contradict each other, and without any.

    Clocks that contradict themselves were set, or were slewed by more than ``DRIFT``, in between.
    """
    if not exchanges:
        return None
    low_ns = max(e.answered_ns - e.received_ns - _drift_ns(e, at_ns) for e in exchanges)
    high_ns = min(e.arrived_ns - e.sent_ns + _drift_ns(e, at_ns) for e in exchanges)
    return Bounds(low_ns, high_ns) if low_ns <= high_ns else None


class Envelope:
    """``bounds_at`` of many exchanges at many moments, for exchanges one after the other.

    Of one that is under way at a moment nothing is taken, so that bounds may be a little wider there.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        ordered = sorted(exchanges, key=lambda e: e.sent_ns)
        self._sent, self._received = [e.sent_ns for e in ordered], [e.received_ns for e in ordered]
        if self._received != sorted(self._received):
            raise ValueError("exchanges overlap")
        lows, highs = (
            [e.answered_ns - e.received_ns for e in ordered],
            [e.arrived_ns - e.sent_ns for e in ordered],
        )
        # Widened from the end that is farther away: of those before a moment the sending, of those after it the answer.
        sent, received = [DRIFT * at for at in self._sent], [DRIFT * at for at in self._received]
        self._low_before = list(accumulate(map(operator.add, lows, sent), max))
        self._high_before = list(accumulate(map(operator.sub, highs, sent), min))
        self._low_after = list(accumulate(map(operator.sub, reversed(lows), reversed(received)), max))[::-1]
        self._high_after = list(accumulate(map(operator.add, reversed(highs), reversed(received)), min))[::-1]

    def at(self, at_ns: int) -> Bounds | None:
        """What they allow at a moment; None where they contradict each other there, and without any."""
        before, after = bisect_right(self._received, at_ns), bisect_left(self._sent, at_ns)
        lows, highs, widened = [], [], DRIFT * at_ns
        if before:
            lows.append(self._low_before[before - 1] - widened)
            highs.append(self._high_before[before - 1] + widened)
        if after < len(self._sent):
            lows.append(self._low_after[after] + widened)
            highs.append(self._high_after[after] - widened)
        if not lows:
            return None
        low_ns, high_ns = math.floor(max(lows)), math.ceil(min(highs))
        return Bounds(low_ns, high_ns) if low_ns <= high_ns else None

    def misplaced_ns(self, offset_ns: int, start_ns: int, end_ns: int) -> int | None:
        """By how much the other clock less ours is another than ``offset_ns``, at most, from one moment of ours to
        another one; None where exchanges contradict each other in between, and without any.
        """
        within = self._received[bisect_right(self._received, start_ns) : bisect_left(self._received, end_ns)]
        asked = [start_ns, *within, end_ns]
        bounds = [one for one in map(self.at, asked) if one is not None]
        if len(bounds) < len(asked):
            return None
        error_ns = max(abs(end - offset_ns) for one in bounds for end in (one.low_ns, one.high_ns))
        for (before_ns, before), (after_ns, after) in pairwise(zip(asked, bounds, strict=True)):
            # From both moments the bounds widen by DRIFT until they meet, and that is nearer to the surer of both.
            drift_ns = DRIFT * (after_ns - before_ns)
            low_ns = math.floor((before.low_ns + after.low_ns - drift_ns) / 2)
            high_ns = math.ceil((before.high_ns + after.high_ns + drift_ns) / 2)
            error_ns = max(error_ns, offset_ns - low_ns, high_ns - offset_ns)
        return error_ns


def drift_ppm(before: Sequence[Exchange], after: Sequence[Exchange]) -> tuple[float, float] | None:
    """(least, most) that the other clock gained on ours between two groups of exchanges, in millionths of the time.

    None where one of the groups tells no offset, and where no time passed between them.
    """
    if not before or not after:
        return None
    first_ns, last_ns = before[-1].received_ns, after[0].sent_ns
    first, last = bounds_at(before, first_ns), bounds_at(after, last_ns)
    if first is None or last is None or last_ns <= first_ns:
        return None
    passed = (last_ns - first_ns) / 1e6
    return (last.low_ns - first.high_ns) / passed, (last.high_ns - first.low_ns) / passed


def thinned(exchanges: Sequence[Exchange], most: int) -> list[Exchange]:
    """So many at most, in the order of time: of each group of neighbours the one that tells the clocks best.

    What they bound stays right, and is wider between two that are kept; their round trips are no sample of all.
    """
    each = -(-len(exchanges) // most)
    groups = (exchanges[at : at + each] for at in range(0, len(exchanges), each or 1))
    return [min(group, key=lambda exchange: exchange.round_trip_ns) for group in groups]


def _drift_ns(exchange: Exchange, at_ns: int) -> int:
    """From the end of the exchange that is farther from the moment: it is not known when in between it was true."""
    return math.ceil(DRIFT * max(abs(at_ns - exchange.sent_ns), abs(at_ns - exchange.received_ns)))
