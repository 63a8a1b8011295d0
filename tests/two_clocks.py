"""A made-up clock of another host, and questions for its time around something that lasts."""

from __future__ import annotations

import random
from collections.abc import Callable

from inferbench_tasks.timing.two_clocks import Exchange

MS, S = 1_000_000, 1_000_000_000


class Clock:
    """``ahead``: of a moment of ours, which is the truth: how far the other one is ahead then, ns."""

    def __init__(self, ahead: Callable[[int], int]) -> None:
        self._ahead = ahead

    def at(self, at_ns: int) -> int:
        return at_ns + self._ahead(at_ns)

    def exchange(self, at_ns: int, out_ns: int, back_ns: int) -> Exchange:
        """A question that leaves at that moment; the answer takes 20 us."""
        arrived_ns = at_ns + out_ns
        answered_ns = arrived_ns + 20_000
        return Exchange(at_ns, self.at(arrived_ns), self.at(answered_ns), answered_ns + back_ns)


def asked_around(
    clock: Clock,
    start_ns: int,
    lasts_ns: int,
    rng: random.Random | None,
    out_ms: float = 0.1,
    back_ms: float = 0.1,
    after_s: float = 1.0,
) -> tuple[list[Exchange], list[Exchange], list[Exchange]]:
    """Questions for one second before, each quarter of a second while it lasts, and behind it. ``rng``: of what ways
    take longer than their least; without all take the same.
    """

    def way(least_ms: float) -> int:
        return round((least_ms + (rng.expovariate(10) if rng else 0.0)) * MS)

    def group(from_ns: int, count: int, every_ns: int) -> list[Exchange]:
        return [clock.exchange(from_ns + n * every_ns, way(out_ms), way(back_ms)) for n in range(count)]

    end_ns = start_ns + lasts_ns
    return (
        group(start_ns - S, 99, 10 * MS),
        group(start_ns + 50 * MS, lasts_ns // (250 * MS) - 1, 250 * MS),
        group(end_ns, round(after_s * 99), 10 * MS),
    )
