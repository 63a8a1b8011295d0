"""``multi_stream``: MLPerf's scenario of one client whose queries carry several samples in a row."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.arrivals.closed import ClosedProcess


class MultiStream(ClosedProcess):
    """One query in flight; a query is one request with ``samples_per_query`` samples, and has one latency."""

    kind: Literal["multi_stream"]
    samples_per_query: Annotated[int, Field(ge=1, le=4096)] = 8
    """Samples of one query, neighbours in the data set; takes the place of the load's ``batch_size``."""

    def samples_per_request(self, batch_size: int) -> int:
        return self.samples_per_query
