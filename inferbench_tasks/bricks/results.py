"""Times of bricks and of whole models; PerfDB keeps them (``brick_jobs/store.py``)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, model_validator

from inferbench_tasks.bricks.measure.method import Method, Setting

#: Before the identity of a whole model, which is timed as it is served: the brick of all its layers is another network.
WHOLE = "whole-"


class Result(BaseModel):
    """A brick's times, or a whole model's (``identity`` begins with ``WHOLE``).

    ``rounds_ns``: state -> one time per round, at the base level of its host; ``raw_ns``: state -> all runs by
    round, as they were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: str
    key: str
    operators: tuple[str, ...]
    setting: Setting
    session: str
    method: Method
    """How much was asked for when it was timed."""
    rounds_ns: dict[str, tuple[float, ...]]
    raw_ns: dict[str, tuple[tuple[int, ...], ...]]
    parts: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of a whole model: granularity -> the identities of its bricks, in order."""
    needs: dict[str, tuple[tuple[int, ...], ...]] = Field(default_factory=dict)
    """Of a whole model: granularity -> for each brick the positions of those that it takes from."""
    measured_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    home: str = ""
    """Of the host that it was timed on (``settings.home_id``), whose name is ``host``; "" of before it was kept."""
    host: str = ""
    from_hosts: tuple[tuple[str, str], ...] = ()
    """Of one that was not measured, but follows from others' times: home and host of each of these."""
    disturbed: str | None = None
    """Why the machine was not quiet; such times are shown by whoever measured them, and never used again."""

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Home and host of all that it follows from; its own where it was measured."""
        return self.from_hosts or ((self.home, self.host),)

    @model_validator(mode="after")
    def _times(self) -> Result:
        for state, times in self.rounds_ns.items():
            if len(times) < 2 or not all(0 < time < float("inf") for time in times):
                raise ValueError(f"{state}: at least two times above 0 are needed, not {times}")
        return self


def setting_id(setting: Setting) -> str:
    """16 hex digits that differ where anything of the setting does."""
    return hashlib.sha256(setting.model_dump_json().encode()).hexdigest()[:16]
