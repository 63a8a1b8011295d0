"""Moments of the system's time (CLOCK_REALTIME) on CLOCK_MONOTONIC, and the steps of the one against the other.

The kernel stamps what arrives with the system's time. Both clocks are slowed and sped up together; what lies between
them changes only when somebody sets the system's time, or the machine sleeps. That is a STEP: every moment that is
converted across it is wrong by its size.
"""

from __future__ import annotations

import time

#: Readings for one sample: another process may come between two of them, which makes that one wide, not wrong.
_READINGS = 3


class WallClock:
    """``offset_ns``: CLOCK_REALTIME - CLOCK_MONOTONIC, as narrow as all samples since the last step know it.

    ``max_step_ns``: the largest step seen, 0 without any; ``steps``: how many there were.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.max_step_ns = 0
        self._low_ns, self._high_ns = self._bounds_ns()
        self.offset_ns = (self._low_ns + self._high_ns) // 2

    def sample(self) -> None:
        """Compare both clocks now. To be called before, now and then during, and after what is converted."""
        for _ in range(_READINGS):
            low_ns, high_ns = self._bounds_ns()
            lowest_ns, highest_ns = max(low_ns, self._low_ns), min(high_ns, self._high_ns)
            if lowest_ns > highest_ns:
                self._stepped(low_ns, high_ns)
            elif lowest_ns > self._low_ns or highest_ns < self._high_ns:
                self._low_ns, self._high_ns = lowest_ns, highest_ns
            else:
                return  # nothing new is learnt
            self.offset_ns = (self._low_ns + self._high_ns) // 2

    def _stepped(self, low_ns: int, high_ns: int) -> None:
        size_ns = max(low_ns - self._high_ns, self._low_ns - high_ns)
        self.steps += 1
        self.max_step_ns = max(self.max_step_ns, size_ns)
        self._low_ns, self._high_ns = low_ns, high_ns

    @staticmethod
    def _bounds_ns() -> tuple[int, int]:
        """Between which the offset lies, whatever held this process up between the readings."""
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        return wall_ns - after_ns, wall_ns - before_ns
