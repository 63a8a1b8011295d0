"""What is handed on of replicas on other hosts than the first one's: what they are, and how the load's host saw it."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.handles import ColdStart, Handle
from inferbench_tasks.contracts.link import LinkAround, RoundTrips
from inferbench_tasks.contracts.replicas import Replica
from inferbench_tasks.stages.senders.far_watch import FarWatch


class FarReplica(Handle):
    """One that stands on a host of its own. ``watch``: how what watches it there is reached. ``version``, ``hardware``,
    ``system``: what that host has. ``quiet``, ``not_quiet``: whether others used it when its replica was to start
    (``monitors.quiet``).
    """

    replica: Replica
    watch: FarWatch
    cold_start: ColdStart
    difference_ratio: float
    version: str
    hardware: dict[str, Any]
    system: dict[str, Any]
    quiet: dict[str, Any] | None = None
    not_quiet: str = ""

    @property
    def name(self) -> str:
        """As messages call it, with its host."""
        return f"{self.replica.name} on {self.replica.host}"


class Followed(Handle):
    """What the load's host found of one: the way there, and its recording, by that host's clock, as a file here.

    Its clock is ``ahead_ns`` ahead of this one's in the measured window, wrong by at most ``error_ns``; None where that
    is not known. ``meanwhile``: the round trips within the window. Exchanges themselves are not kept: there are as many
    as the load is long.
    """

    number: int
    link: LinkAround
    meanwhile: RoundTrips | None
    ahead_ns: int | None
    error_ns: int | None
    monitors_path: str
