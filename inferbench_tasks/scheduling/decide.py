"""The decision: what to do now, given all that happened.

Proposals only: the index stays as it is, so the same index, time and parameters always give the same decisions. The
executor makes a ``Place`` real by compare-and-set on the lease and reports back what came of it.
"""

from __future__ import annotations

from heapq import heappop, heappush

from inferbench_tasks.scheduling.decisions import Decision, Place, Reject, Requeue
from inferbench_tasks.scheduling.early import EarlyQueue
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.late import Round
from inferbench_tasks.scheduling.late_queue import LateQueue
from inferbench_tasks.scheduling.model import Params, QueuedJob, usable_devices

NO_DEVICE_LEFT = "no device is left that it does not avoid"


def decide(index: Index, now: float, params: Params) -> list[Decision]:
    """What to do at ``now``. ``params`` must be those of the index: its heaps are sorted by them.

    First what must end (Requeue, Reject), then the placements, reservations and preemptions.
    """
    if params is not index.params and params != index.params:
        raise ValueError("decide() got other parameters than its index was made with")
    ending = _ending(index, now)
    if not index.queue.live:
        return ending
    if isinstance(index.queue, LateQueue):
        return ending + Round(index, index.queue, now).run()
    return ending + _start_bound(index, index.queue, now)


def retries_text(job: QueuedJob) -> str:
    return f"infrastructure failed under it {job.attempt} times"


def limit_text(job: QueuedJob) -> str:
    return f"it ran longer than its limit of {job.limit_s:g} s"


def _ending(index: Index, now: float) -> list[Decision]:
    """Runs on dead nodes, waiting jobs without a retry or device left, runs over their limit."""
    out: list[Decision] = []
    for job_id in sorted(index.orphans):
        run = index.orphans[job_id].run
        assert run is not None
        out.append(Requeue(job_id, run.node_id, "its node is down"))
    for job_id in sorted(index.retrying):
        job = index.retrying[job_id].spec
        if job.attempt > index.params.max_retries:
            out.append(Reject(job_id, retries_text(job)))
        elif _nowhere(index, job):
            out.append(Reject(job_id, NO_DEVICE_LEFT))
    late = _over_limit(index, now)
    return out + [Reject(job_id, limit_text(index.jobs[job_id].spec)) for job_id in late]


def _over_limit(index: Index, now: float) -> list[str]:
    due: list[tuple[float, str]] = []
    while index.limits and index.limits[0][0] < now:
        item = heappop(index.limits)
        if index.limit_holds(*item):
            due.append(item)
    for item in set(due):
        heappush(index.limits, item)
    return sorted({job_id for _, job_id in due} - index.orphans.keys())


def _nowhere(index: Index, job: QueuedJob) -> bool:
    """Whether the job avoids all that could ever run it. Nodes that are down or unfit may come back."""
    nodes = [
        node
        for name in job.device_types
        if (kind := index.nodes.types.get(name))
        for node in kind.nodes.values()
        if node.total >= job.n_devices
    ]
    return bool(nodes) and all(
        len(usable_devices(n.node_id, range(n.total), job.avoid)) < job.n_devices for n in nodes
    )


def _start_bound(index: Index, queue: EarlyQueue, now: float) -> list[Decision]:
    """rr, qa: each node starts its own queue, in order, on what is free of it."""
    out: list[Decision] = []
    ready = [item for kind in index.nodes.types.values() for item in kind.with_free.items()]
    for node_id, node in sorted(ready, key=lambda item: item[0]):
        if node_id not in queue.queues:
            continue
        free = tuple(node.free)
        for entry in queue.queues[node_id].first(len(free)):
            job = entry.spec
            devices = usable_devices(node_id, free, job.avoid)[: job.n_devices]
            if len(devices) < job.n_devices:
                break
            free = tuple(d for d in free if d not in devices)
            reason = f"first in the node's queue ({index.params.order})"
            out.append(Place(job.job_id, node_id, devices, now + job.est_s, reason))
    return out
