"""``single_stream``: MLPerf's scenario of one client that asks again as soon as it is answered."""

from __future__ import annotations

from typing import ClassVar, Literal

from inferbench_tasks.arrivals.base import ArrivalProcess


class SingleStream(ArrivalProcess):
    """One request in flight, always; its metric is a percentile of the latency."""

    kind: Literal["single_stream"]
    loop: ClassVar[Literal["open", "closed"]] = "closed"

    @property
    def concurrency(self) -> int:
        """One."""
        return 1

    @property
    def think_time_ms(self) -> float:
        """None."""
        return 0.0
