"""What the scheduler knows: jobs, nodes, the policy's parameters, and a snapshot of all of it.

Plain immutable data. Times are seconds of one clock that the caller chooses (the executor: Unix time; the simulator:
seconds since the start of the trace); the scheduler itself reads no clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from inferbench_tasks.errors import InputError

Health = Literal["ok", "suspect", "quarantined"]
Binding = Literal["late", "rr", "qa"]
Order = Literal["fcfs", "sjf", "aged"]


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One job as the scheduler sees it: what it needs, whose it is, how long it is expected to take.

    ``est_s`` is the expected run time on a device, ``limit_s`` the time after which it is stopped (``math.inf``:
    never), ``submit_s`` the ORIGINAL time of submission, whatever happened to the job since. ``spec_hash`` is equal
    for jobs that do the same work. ``avoid`` holds node ids or names of single devices (``device_name``).
    ``elsewhere``: the types of a further device, of another host, that it holds beside its own; empty: none.
    ``n_elsewhere``: of so many other hosts it holds one each. The policy places its own alone. ``not_its_own``: those
    that it avoids, by id, only as its own device: another was chosen, or their host is ``unable``; the one elsewhere
    may be one of them.
    ``elsewhere_on``: the name of the host or cluster that the one elsewhere is to be of; "": any. ``ability``: what the
    host of its own has to be able to do; "": nothing. ``unable``: those that it avoids, by id, only as theirs can't.
    """

    job_id: str
    tenant: str
    spec_hash: str
    submit_s: float
    est_s: float
    limit_s: float
    device_types: frozenset[str]
    n_devices: int = 1
    priority: int = 0
    deadline_s: float | None = None
    preemptible: bool = False
    attempt: int = 0
    avoid: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    not_its_own: frozenset[str] = frozenset()
    elsewhere_on: str = ""
    n_elsewhere: int = 1
    ability: str = ""
    unable: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not (0 <= self.est_s < math.inf and -math.inf < self.submit_s < math.inf and self.limit_s > 0):
            raise InputError(
                f"Job {self.job_id!r}: est_s must be finite and >= 0, submit_s finite, limit_s > 0; got "
                f"est_s={self.est_s}, submit_s={self.submit_s}, limit_s={self.limit_s}"
            )
        if self.n_devices < 1 or not self.device_types:
            raise InputError(f"Job {self.job_id!r}: it needs at least one device of at least one type")
        if self.elsewhere and self.n_devices > 1:
            raise InputError(f"Job {self.job_id!r}: with a device of another host it holds one of its own")
        if self.n_elsewhere < 1:
            raise InputError(
                f"Job {self.job_id!r}: n_elsewhere counts from 1; elsewhere says whether there is one"
            )

    @property
    def n_in_all(self) -> int:
        """How many devices it holds, those of other hosts too."""
        return self.n_devices + (self.n_elsewhere if self.elsewhere else 0)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One worker: devices of one type. ``free`` are the devices on which a job may start now."""

    node_id: str
    device_type: str
    free: tuple[int, ...]
    health: Health
    running: tuple[tuple[str, int, float], ...]
    """Job id, number of its devices, expected end (s)."""


@dataclass(frozen=True, slots=True)
class RunView:
    """One job that holds a lease. ``start_s``: its ``Started``, or its ``LeaseGranted`` until then."""

    job: QueuedJob
    node_id: str
    devices: tuple[int, ...]
    start_s: float
    est_end_s: float
    orphan: bool
    """Its node is down, or its lease has no living worker behind it."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a ``NodeView`` leaves out: how many ``devices`` there are, which are unfit, if the node is down."""

    devices: int
    unfit: frozenset[int]
    down: bool

    @property
    def usable(self) -> int:
        """The number of healthy devices, busy or not."""
        return 0 if self.down else self.devices - len(self.unfit)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a decision depends on, for ``decide_reference`` and for showing; the order of the tuples is free."""

    waiting: tuple[QueuedJob, ...]
    running: tuple[RunView, ...]
    nodes: tuple[NodeView, ...]
    states: Mapping[str, NodeState]
    bound: Mapping[str, str]
    """Job -> node, of the policies that bind a job to a queue when it is submitted."""
    est_sum_us: int
    est_count: int
    """Of the estimates of all jobs ever submitted: their mean bounds the length in the aged order."""


@dataclass(frozen=True, slots=True)
class Params:
    """A policy is one choice of these; ``policies.py`` has the named ones."""

    binding: Binding = "late"
    """late: a job gets its device when the device is free. rr, qa: it joins one node's queue when submitted."""
    order: Order = "aged"
    clip_ratio: float = 2.0
    """aged: estimates count at most this many times the mean, so the wait of long jobs is bounded."""
    ageing_ratio: float = 0.1
    """aged: a second of waiting counts as much as this many seconds of length."""
    priorities: bool = True
    fair_tenants: bool = True
    tenant_slack_ratio: float = 1.5
    """A tenant's soft cap, in fair shares of the devices; what nobody else wants can be borrowed beyond it."""
    tenant_weights: Mapping[str, float] = field(default_factory=dict)
    """Shares other than 1."""
    deadlines: bool = True
    deadline_safety_ratio: float = 1.25
    """A deadline job is promoted when this many times the work still ahead of its deadline fills the time left."""
    reserve: bool = True
    """EASY: the first job that needs more devices than are free gets a reservation. False: it is skipped."""
    preempt: bool = True
    max_retries: int = 2
    """Infrastructure failures of one job that are retried."""

    def __post_init__(self) -> None:
        if self.binding != "late" and (
            self.order == "aged" or self.fair_tenants or self.deadlines or self.preempt
        ):
            raise InputError(
                f"binding {self.binding!r} puts jobs into queues that nothing reorders later: only the orders fcfs and "
                "sjf, without fair_tenants, deadlines and preempt"
            )


class EventError(InputError):
    """An event contradicts what happened before: an unknown job, a second lease on a device, a second end."""


def device_name(node_id: str, device: int) -> str:
    """How ``avoid`` names one device of a node."""
    return f"{node_id}:{device}"


def usable_devices(node_id: str, free: Iterable[int], avoid: frozenset[str]) -> tuple[int, ...]:
    """Those of a node's free devices that a job does not avoid."""
    if not avoid:
        return tuple(free)
    if node_id in avoid:
        return ()
    return tuple(d for d in free if device_name(node_id, d) not in avoid)


def to_us(seconds: float) -> int:
    """Whole microseconds: sort keys are integers, so that no rounding makes two orders disagree."""
    return round(seconds * 1e6)
