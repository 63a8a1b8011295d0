"""How many requests may take too long before nothing that comes after can make up for it."""

from __future__ import annotations

import math
from collections.abc import Mapping


class Tolerance:
    """Of ``requests`` that are sent from ``begin_ns`` on, percentiles are to be within bounds, ns (percent -> bound).

    A percentile is that of ``numpy.percentile``, on the line between the two values around it: it is above its bound
    for certain where the lower of them is. ``exceeded``: whether one is, whatever the other requests take.
    """

    def __init__(self, bounds_ns: Mapping[float, float], begin_ns: float, requests: int) -> None:
        self._begin_ns = begin_ns
        #: [bound, how many more may take longer]
        self._left = [
            [ns, requests - 1 - math.floor((requests - 1) * percent / 100)]
            for percent, ns in bounds_ns.items()
        ]
        self.least_ns = min(bounds_ns.values())
        self.exceeded = False

    def count(self, sent_ns: float, latency_ns: float) -> None:
        """One request that took longer than ``least_ns``."""
        if sent_ns < self._begin_ns:
            return
        for one in self._left:
            if latency_ns > one[0]:
                one[1] -= 1
                self.exceeded |= one[1] < 0
