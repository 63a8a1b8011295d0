"""The mutable records behind an ``Index``: jobs, their leases, tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.scheduling.model import JobSpec, Params

if TYPE_CHECKING:
    from inferbench_tasks.scheduling.lanes import Bucket, Lane

#: An order of waiting jobs: (-priority, three numbers or names that decide, the entry itself). The entry is compared
#: only with itself, because the job id before it is unique.
Key = tuple[Any, ...]


class Run:
    """A lease that a job holds."""

    __slots__ = ("devices", "est_end_s", "limit_end_s", "node_id", "orphan", "start_s", "token")

    def __init__(self, node_id: str, devices: tuple[int, ...], token: int | None) -> None:
        self.node_id = node_id
        self.devices = devices
        self.token = token
        self.orphan = False
        self.start_s = self.est_end_s = self.limit_end_s = 0.0

    def begin(self, at_s: float, job: JobSpec) -> None:
        """The expected end and the time limit count from now."""
        self.start_s = at_s
        self.est_end_s = at_s + job.est_s
        self.limit_end_s = at_s + job.limit_s


class Tenant:
    """Who submitted. ``held`` devices per weight is what its soft cap is compared with."""

    __slots__ = ("active", "buckets", "held", "held_per_weight", "name", "weight_milli")

    def __init__(self, name: str, weight_milli: int) -> None:
        self.name = name
        self.weight_milli = weight_milli
        self.held = 0
        self.active = 0
        self.held_per_weight = 0.0
        self.buckets: dict[Lane, Bucket] = {}


class Entry:
    """A job that has not ended. ``run`` is None while it waits."""

    __slots__ = (
        "bound",
        "bucket",
        "deadline_key",
        "est_us",
        "keys",
        "lane",
        "run",
        "spec",
        "submit_us",
        "tenant",
        "waiting",
    )

    lane: Lane
    bucket: Bucket
    tenant: Tenant

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.est_us = round(spec.est_s * 1e6)
        self.submit_us = round(spec.submit_s * 1e6)
        self.waiting = False
        self.run: Run | None = None
        self.bound: str | None = None
        self.keys: tuple[Key, ...] = ()
        self.deadline_key: Key | None = None


def order_keys(entry: Entry, params: Params, ageing_milli: int, clip_floor_us: int = 0) -> tuple[Key, ...]:
    """The static keys of an entry; the aged order needs two for a job that the clip may shorten (see ``lanes.py``)."""
    spec = entry.spec
    first = -spec.priority if params.priorities else 0
    est, submit, name = entry.est_us, entry.submit_us, spec.job_id
    if params.order == "aged":
        by_length = (first, 1000 * est + ageing_milli * submit, est, name, entry)
        if est <= clip_floor_us:
            return (by_length,)
        return (by_length, (first, submit, est, name, entry))
    if params.order == "sjf":
        return ((first, est, submit, name, entry),)
    # Equal times: by id, not by length, or a batch would be run shortest first.
    return ((first, submit, 0, name, entry),)


def rank(key: Key, tenant_class: float, order: str, clip_us: int, ageing_milli: int) -> tuple[Any, ...]:
    """Where the job of ``key`` stands among all: (-priority, its tenant's class, the order's two values, id).

    aged: ``min(est, clip) + ageing * submit_time``, then ``est``. Equal to the order of ``decide_reference``.
    """
    if order != "aged":
        return (key[0], tenant_class, key[1], key[2], key[3])
    entry: Entry = key[4]
    est = entry.est_us
    length = est if est < clip_us else clip_us
    return (key[0], tenant_class, 1000 * length + ageing_milli * entry.submit_us, est, key[3])
