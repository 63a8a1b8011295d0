"""``closed_loop``: a fixed number of users, each waiting for its answer before it asks again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.arrivals.closed import ClosedProcess


class ClosedLoop(ClosedProcess):
    """``concurrency`` requests in flight; each user pauses ``think_time_ms`` between two requests."""

    kind: Literal["closed_loop"]
    concurrency: Annotated[int, Field(ge=1, le=100_000)]
    """Users, and so the most requests in flight."""
    think_time_ms: Annotated[float, Field(ge=0, le=3_600_000)] = 0.0
    """A user's pause between an answer and its next request."""

    @property
    def users(self) -> int:
        return self.concurrency

    @property
    def think_time_ns(self) -> int:
        return round(self.think_time_ms * 1e6)
