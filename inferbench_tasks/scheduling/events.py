"""What happened, in the order in which it happened: the only way in which an ``Index`` changes.

``token`` is the fencing token of a lease. A report that carries an older token than the lease that its job holds
now comes from a run that was given up, and changes nothing; None is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inferbench_tasks.scheduling.model import QueuedJob


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job was submitted and waits from now on."""

    at_s: float
    job: QueuedJob


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The compare-and-set on the devices succeeded: the job holds them."""

    at_s: float
    job_id: str
    node_id: str
    devices: tuple[int, ...]
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The job's ``serve`` runs; its expected end and its time limit count from here."""

    at_s: float
    job_id: str
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The job ended by itself, well or not (a benchmark's own failure is not retried); its devices are free."""

    at_s: float
    job_id: str
    ok: bool = True
    token: int | None = None


@dataclass(frozen=True, slots=True)
class InfraFailed:
    """The run was lost through no fault of the job; it waits again, at its original place.

    ``charged`` counts one retry and makes the job avoid these devices; a preempted run is not charged.
    Without a lease (the compare-and-set was lost) nothing changes but the record.
    """

    at_s: float
    job_id: str
    reason: str = ""
    charged: bool = True
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The job ended without a result: by its user, or because the scheduler gave it up (``Reject``)."""

    at_s: float
    job_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A node with its devices is there and healthy: new, back, or out of quarantine.

    ``names``: of its devices, for who reads the log; the policy counts them.
    """

    at_s: float
    node_id: str
    device_type: str
    n_devices: int = 1
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeDown:
    """A worker is gone. Jobs that it runs are proposed for ``Requeue`` until they end in one way or another."""

    at_s: float
    node_id: str


@dataclass(frozen=True, slots=True)
class HealthFailed:
    """A device failed its check and is quarantined until ``NodeUp``; ``device`` None: the whole node.

    The job that was about to start waits again, at its original place, and is not charged a retry.
    """

    at_s: float
    node_id: str
    device: int | None = None
    job_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The holder's heartbeat stopped: a charged failure, and its devices are suspect until ``NodeUp``.

    ``devices``: those of the lease that are to blame, which alone are suspect and avoided; empty: all of them.
    """

    at_s: float
    job_id: str
    token: int | None = None
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EstimateChanged:
    """More is known about how long a job will run; ``limit_s`` None keeps its limit."""

    at_s: float
    job_id: str
    est_s: float
    limit_s: float | None = None


Event = (
    Submitted
    | LeaseGranted
    | Started
    | Finished
    | InfraFailed
    | Cancelled
    | NodeUp
    | NodeDown
    | HealthFailed
    | LeaseExpired
    | EstimateChanged
)
NodeHealth = Literal["suspect", "quarantined"]
