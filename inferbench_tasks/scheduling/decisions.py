"""What the policy proposes. Nothing has happened yet: the executor carries it out and reports it as an event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Start the job on these devices now: take the lease, then report ``LeaseGranted``."""

    job_id: str
    node_id: str
    devices: tuple[int, ...]
    est_end_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """The job needs more devices than are free; the node is kept for it and is expected to suffice at ``start_s``."""

    job_id: str
    node_id: str
    n_devices: int
    start_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a preemptible job in favour of ``for_job_id``; report ``InfraFailed(charged=False)``."""

    job_id: str
    node_id: str
    for_job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """The job's node is gone: make sure that the run is over, then report ``InfraFailed`` or ``LeaseExpired``."""

    job_id: str
    node_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Give the job up (stop it, if it runs), record why, and report ``Cancelled``."""

    job_id: str
    reason: str


Decision = Place | Reserve | Preempt | Requeue | Reject
