"""What a certificate is made from: the promise, what the senders used, and single checks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.contracts.verdict import Reason


@dataclass(frozen=True)
class OpenPlan:
    """The promise of an open loop: the intended times within the measured window, ns, all shards.

    Of a load that was stopped early on purpose: those before the stop. ``paced`` is False where all
    requests are handed over at once (offline), so that lateness has no meaning. ``request_id``: the number of each
    of them. ``shards``: how many senders there were, which number their requests in steps of it from
    ``first_request_id`` on (plus the sender's own index); what is None is not checked.
    """

    intended_ns: NDArray[np.int64] = field(repr=False)
    paced: bool = True
    request_id: NDArray[np.int64] | None = field(default=None, repr=False)
    shards: int | None = None
    first_request_id: int = 0
    timeout_ns: int | None = None
    #: Of conversations, see ``LoadPlan.turn_step``.
    turn_step: int = 0
    #: Of each sender, with one request at a time on each, where the user asked for so many; None: nobody did.
    connections: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ClosedPlan:
    """The promise of a closed loop: so many users, each with a request in flight or thinking.

    All of them ask first at ``start_ns``, and nobody after ``end_ns`` or after ``max_requests`` of all senders
    together. ``shards``, ``first_request_id``: as of an open loop; what is None is not checked.
    """

    concurrency: int
    think_time_ns: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    max_requests: int | None = None
    shards: int | None = None
    first_request_id: int = 0
    timeout_ns: int | None = None
    #: Of conversations: see ``LoadPlan.turn_step``; and from each record's end to its user's next request, ns.
    turn_step: int = 0
    pause_ns: NDArray[np.int64] | None = field(default=None, repr=False)


class ShardUsage(BaseModel):
    """What a sender's process used between the ends of the measured window.

    ``cpu_s``: user and system time of the process. ``max_stall_ns``: the longest time that its loop was
    held up, seen by a heartbeat in the loop itself (every 10 ms or less: how late its timer ran at worst),
    because a sender that is stopped while it only waits for answers leaves no other trace in the records.
    ``stalls_ns``: when it was held up, (begin, end) each on CLOCK_MONOTONIC, in the order of time: the longest ones
    where there were very many. ``stalled_ns``: the sum of those of 5 ms and more, the unlisted too. Both are None where
    nobody looked; what the worst one may have done is then held against every answer. ``clock_step_ns``: by how much
    the system's time was set against CLOCK_MONOTONIC since the sender began; None where it did not matter. ``host``: on
    which of several hosts it ran; "" where there was one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    shard: int
    cpu_s: float
    wall_s: float
    max_stall_ns: int
    stalls_ns: tuple[tuple[int, int], ...] | None = None
    stalled_ns: int | None = None
    clock_step_ns: int | None = None
    host: str = ""

    @property
    def where(self) -> str:
        """Where it ran, in a sentence."""
        return f" on {self.host}" if self.host else ""


class Check(BaseModel):
    """One thing that was checked: ``ok`` means value <= limit. ``reason`` is what it says if it fails."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    value: float
    limit: float
    unit: str
    ok: bool
    reason: str

    @classmethod
    def at_most(cls, name: str, value: float, limit: float, unit: str, reason: str) -> Check:
        """The only kind there is."""
        return cls(name=name, value=value, limit=limit, unit=unit, ok=bool(value <= limit), reason=reason)

    def against(self) -> Reason:
        """What a verdict holds against the run, if the check fails."""
        return Reason(
            check=self.name, figure=self.value, bound=self.limit, unit=self.unit or None, text=self.reason
        )


def beside(value: float, limit: float, digits: int) -> tuple[str, str]:
    """Both with so many digits after the point, or more where they would read alike though one is larger."""
    for digits_of_both in range(digits, 10):
        texts = f"{value:.{digits_of_both}f}", f"{limit:.{digits_of_both}f}"
        if texts[0] != texts[1] or value == limit:
            break
    return texts


def ended_early(why: str) -> Reason:
    """What a verdict holds against a run whose load was ended before its time."""
    return Reason(check="ended_early", text=f"the load ended early: {why}")
