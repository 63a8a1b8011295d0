"""``single_stream``: MLPerf's scenario of one client that asks again as soon as it is answered."""

from __future__ import annotations

from typing import Literal

from inferbench_tasks.arrivals.closed import ClosedProcess


class SingleStream(ClosedProcess):
    """One request in flight, always; its metric is a percentile of the latency."""

    kind: Literal["single_stream"]
