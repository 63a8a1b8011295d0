"""What closed-loop arrivals have in common: users who wait for their answer before they ask again."""

from __future__ import annotations

from typing import ClassVar, Literal

from inferbench_tasks.arrivals.base import ArrivalProcess


class ClosedProcess(ArrivalProcess):
    """The base of every kind that is driven by a concurrency: one user without a pause, unless a kind says more.

    It has no schedule (``offsets_ns`` raises TypeError) and no rate.
    """

    loop: ClassVar[Literal["open", "closed"]] = "closed"

    @property
    def users(self) -> int:
        """How many there are, and so the most requests in flight."""
        return 1

    @property
    def think_time_ns(self) -> int:
        """A user's pause between an answer and its next request, ns."""
        return 0
