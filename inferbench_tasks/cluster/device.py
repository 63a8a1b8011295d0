"""What PerfDB holds of each device: what it is, how it is, and who has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.cluster.versions import Versions
from inferbench_tasks.contracts.likeness import instead

Health = Literal["ok", "quarantined"]
#: granted: the scheduler gave it; confirmed: the worker found the device fit; refused: it did not; lost: the worker
#: was started again, and what the job had there is gone.
LeaseState = Literal["granted", "confirmed", "refused", "lost"]
#: ended: the job is over; returned: it waits again, the device was not fit; lost: it is to be run again.
Outcome = Literal["ended", "returned", "lost"]

#: Among a device's capabilities: what its host can't do; and how what jobs compare is there (``contracts.likeness``).
LACKS, TELLS = "lacks", "tells"


class Last(BaseModel):
    """How the latest lease of a device ended, with its token."""

    model_config = ConfigDict(frozen=True)

    token: int
    outcome: Outcome
    nonce: str = ""
    """Of the request that ended it: it may be repeated."""


class Lease(BaseModel):
    """A job's right to one device, to several of one host, or to one and one of another host (a gang), from ``serve``
    to ``release``.

    ``token`` grows with each lease of the device: whoever holds an older one has lost it. A gang's is the same on all
    its devices. ``nonce`` tells a repeated request for a lease from somebody else's.
    """

    model_config = ConfigDict(frozen=True)

    job: str
    token: int
    nonce: str
    granted_s: float
    """Unix time, by the clock of the scheduler that took it, which is nobody else's: see ``Device.lease_age_s``."""
    est_end_s: float
    state: LeaseState = "granted"
    reason: str = ""
    spec: dict[str, Any] = Field(default_factory=dict)
    """The job as the policy sees it (``QueuedJob`` as JSON): another scheduler can take over."""
    run_id: str = ""
    """The job's run in PerfDB."""
    members: tuple[str, ...] = ()
    """The ids of all devices that are held together. The worker of the first runs the job's stages; one of another host
    stands last (``cluster.apart``)."""


class Device(BaseModel):
    """One device and the worker that serves it. Its id is the name of its queue too."""

    model_config = ConfigDict(frozen=True)

    device_id: str
    device_type: str
    """cpu, or the kind of GPU: h100, t4, ..."""
    name: str
    host: str
    cores: tuple[int, ...] = ()
    """The cores that its jobs are pinned to."""
    gpu_index: int | None = None
    memory_bytes: int = 0
    driver: str | None = None
    capabilities: dict[str, Any] = Field(default_factory=dict)
    """What it is in numbers and names; under ``lacks`` what its host can't do, each with the reason and the remedy;
    under ``tells`` what jobs may ask to be the same as elsewhere, as it is there."""
    pid: int = 0
    health: Health = "ok"
    reason: str = ""
    """Why it is quarantined."""
    accused: str = ""
    """Why somebody holds it for sick, though its own checks find nothing; until its worker is started again."""
    home: str = ""
    """The id of its worker's data directory (``settings.home_id``); "" of workers from before it was told."""
    boot_id: str = ""
    """The kernel's that its worker runs on (``settings.boot_id``); "" of workers from before it was told."""
    cluster: str = ""
    """The name of the cluster that its worker was started for."""
    versions: Versions | None = None
    """Its worker's; None of workers from before they were told."""
    age_s: float = 0.0
    """Seconds since the worker's last heartbeat, by the database's clock."""
    stopped: bool = False
    """Its worker was stopped on purpose."""
    token: int = 0
    queue_s: float = 0.0
    """Expected seconds until it has no work, of its own lease alone (late binding: what waits is nobody's yet)."""
    lease: Lease | None = None
    lease_age_s: float = 0.0
    """Seconds since its lease was granted, by the database's clock; 0 without one, and of one of an earlier version."""
    last: Last | None = None

    @property
    def held_with(self) -> tuple[str, ...]:
        """All devices that its lease holds, the one whose worker runs the stages first; none without a lease."""
        return () if self.lease is None else self.lease.members or (self.device_id,)

    @property
    def expected_left_s(self) -> float | None:
        """How long its job is expected to hold it still, negative once that takes longer; None without a lease.

        By the age of the lease: the moments in it are by its scheduler's clock, which may be another host's.
        """
        lease = self.lease
        return None if lease is None else lease.est_end_s - lease.granted_s - self.lease_age_s

    def lacks(self, ability: str) -> str:
        """Why its host can't do that, with the remedy, as its worker told when it began; "" where nothing is known
        against it.
        """
        if other := instead(ability, self.capabilities.get(TELLS, {})):
            return f"there it is {other}; have the same on a host of the same kind"
        lacks = self.capabilities.get(LACKS)  # what a worker writes may be anything
        return str(lacks.get(ability, "")) if isinstance(lacks, Mapping) else ""

    def present(self, ttl_s: float) -> bool:
        """Whether the device's worker runs: it gave a sign of life within ``ttl_s`` and was not stopped."""
        return not self.stopped and self.age_s <= ttl_s
