"""Which preemptible jobs make room for a job that comes before them.

A job may displace preemptible jobs of strictly lower priority; a promoted one any preemptible job. A job with a
deadline is never displaced, so two jobs can't displace each other in turn. One job is served per decision: the
displaced ones free their devices through events, and the next decision places it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from inferbench_tasks.scheduling.decisions import Preempt
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.lanes import Entry
from inferbench_tasks.scheduling.late_queue import LateQueue
from inferbench_tasks.scheduling.model import QueuedJob, usable_devices
from inferbench_tasks.scheduling.nodes import Node
from inferbench_tasks.scheduling.order import Rank

#: A preemptible run, the one to displace first before all others: (priority, -start, id, job).
Victim = tuple[int, float, str, Entry]
#: The devices of a node that are free and on which nothing was placed in this decision.
FreeOf = Callable[[Node], Iterable[int]]


def victims(index: Index, queue: LateQueue, now_us: int, now: float) -> list[Victim]:
    """The runs that may have to make room, in that order; none if no waiting job comes before any of them."""
    if not index.params.preempt:
        return []
    # A run over its limit is about to end anyway.
    runs = [
        (entry.spec.priority, -entry.run.start_s, entry.spec.job_id, entry)
        for entry in index.preemptible.values()
        if entry.run and entry.spec.deadline_s is None and entry.run.limit_end_s >= now
    ]
    runs.sort(key=lambda run: run[:3])
    if not runs or queue.book.may_promote(now_us):
        return runs
    higher = index.params.priorities and max(queue.priorities, default=runs[0][0]) > runs[0][0]
    return runs if higher else []


def preempt(
    index: Index,
    runs: Sequence[Victim],
    firsts: Iterable[tuple[Rank, Entry]],
    free_of: FreeOf,
    holders: Mapping[str, Entry],
) -> list[Preempt]:
    """The preemptions for the first waiting job that can get its devices in this way.

    ``firsts``: each lane's first job, which may displace whatever any other of that lane may, so that no other needs
    a look. ``holders``: node -> the job for which it is reserved.
    """
    lowest = runs[0][0]
    for rank, entry in sorted(firsts, key=lambda item: item[0]):
        job, promoted = entry.spec, rank[0] == 0
        if promoted or (index.params.priorities and lowest < job.priority):
            below = [run[3] for run in runs if promoted or run[0] < job.priority]
            reserved = {n for n, holder in holders.items() if holder is not entry}
            victims = _choose(index, free_of, reserved, job, below)
            if victims:
                why = "its deadline is near" if promoted else f"priority {job.priority}"
                return [Preempt(v.spec.job_id, v.run.node_id, job.job_id, why) for v in victims if v.run]
    return []


def _choose(
    index: Index, free_of: FreeOf, reserved: Container[str], job: QueuedJob, candidates: list[Entry]
) -> list[Entry]:
    """The fewest, least important, latest started jobs of one node whose devices suffice; of none in ``reserved``."""
    by_node: dict[str, list[Entry]] = {}
    for entry in candidates:
        if entry.run is not None:
            by_node.setdefault(entry.run.node_id, []).append(entry)
    choices: list[tuple[int, int, str, list[Entry]]] = []
    for node_id, entries in by_node.items():
        node = index.nodes.by_id[node_id]
        if node.type_name not in job.device_types or node.usable < job.n_devices or node_id in reserved:
            continue
        have = len(usable_devices(node_id, free_of(node), job.avoid))
        fit = set(node.fit())
        victims: list[Entry] = []
        for entry in entries:
            gained = [d for d in (entry.run.devices if entry.run else ()) if d in fit]
            gained_usable = usable_devices(node_id, gained, job.avoid)
            if have < job.n_devices and gained_usable:
                have += len(gained_usable)
                victims.append(entry)
        if victims and have >= job.n_devices:
            choices.append((len(victims), victims[-1].spec.priority, node_id, victims))
    return min(choices, key=lambda c: c[:3])[3] if choices else []
