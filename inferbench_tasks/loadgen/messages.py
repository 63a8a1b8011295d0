"""What the senders and their controller tell each other: a line of JSON each."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from inferbench_tasks.loadgen.evidence import ShardUsage


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Report(_Line):
    """From a shard. ``state`` "ready": waits for the start; "running": now and then; "done": the last word.

    ``quota_ns``: when a closed loop sent the last request it was allowed; -1 if it did not come to that.
    """

    state: str
    outstanding: int = 0
    usage: ShardUsage | None = None
    explanations: dict[str, str] = {}
    quota_ns: int = -1
    error: str | None = None


class Order(_Line):
    """To a shard: start at a time (CLOCK_MONOTONIC), or stop now."""

    start_ns: int | None = None
    stop: bool = False
