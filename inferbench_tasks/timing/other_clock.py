"""Moments of another host's clock on ours: by how far it is ahead and what it gains, as questions for the time tell it.

A line through what was asked before and after is what moments are put by. How far they may lie from where they belong
is no matter of that line: it is what all exchanges together prove (``two_clocks``), whatever the clock did in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inferbench_tasks.timing.two_clocks import DRIFT, Envelope, Exchange, bounds_at


@dataclass(frozen=True, slots=True)
class Shift:
    """What is taken from moments of the other clock, ns, and by how much these may be wrong then, at most."""

    ahead_ns: int
    error_ns: int


class OtherClock:
    """``ahead_ns``: so far the other clock is ahead at the moment ``at_ns`` of ours; ``gains``: so much of each second
    that passes here it gains on ours, as measured.
    """

    def __init__(self, at_ns: int, ahead_ns: int, gains: float, exchanges: Sequence[Exchange]) -> None:
        """ValueError where exchanges overlap."""
        self.at_ns, self.ahead_ns, self.gains = at_ns, ahead_ns, gains
        self._envelope = Envelope(exchanges)

    @classmethod
    def told(
        cls, before: Sequence[Exchange], meanwhile: Sequence[Exchange], after: Sequence[Exchange]
    ) -> OtherClock | None:
        """By what was asked before and after what is to be put on our clock, and while it lasted.

        None where one of the groups tells no offset: without any in it, and where they contradict each other.
        """
        if not before or not after:
            return None
        first_ns, last_ns = before[-1].received_ns, after[0].sent_ns
        first, last = bounds_at(before, first_ns), bounds_at(after, last_ns)
        if first is None or last is None or last_ns <= first_ns:
            return None
        ahead_ns = round(first.middle_ns)
        gains = (last.middle_ns - first.middle_ns) / (last_ns - first_ns)
        return cls(first_ns, ahead_ns, gains, (*before, *meanwhile, *after))

    def shift(self, start_ns: int, end_ns: int) -> Shift | None:
        """Of what lasted from one moment of the other clock to another one: one number for all of it, the line's in its
        middle, so that its lengths stay those that the other clock told. None where the exchanges contradict each other
        meanwhile: that clock was set.
        """
        # Small numbers: of nanoseconds since a host was started a float tells no single ones.
        beyond_ns = (start_ns + end_ns) // 2 - self.at_ns - self.ahead_ns
        ahead_ns = self.ahead_ns + round(beyond_ns * self.gains / (1 + self.gains))
        error_ns = self._envelope.misplaced_ns(ahead_ns, start_ns - ahead_ns, end_ns - ahead_ns)
        if error_ns is None:
            return None
        # The bounds are those of where a moment is put; where it belongs they are others by DRIFT of what lies between.
        return Shift(ahead_ns, math.ceil(error_ns / (1 - DRIFT)))
