"""A trace: what is submitted when, how long it really runs, on which nodes, and what breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.events import NodeDown, NodeUp
from inferbench_tasks.scheduling.model import QueuedJob


@dataclass(frozen=True, slots=True)
class TraceJob:
    """``spec.est_s`` is what is believed before the run, ``actual_s`` what the run takes."""

    spec: QueuedJob
    actual_s: float

    def __post_init__(self) -> None:
        if not 0 < self.actual_s < math.inf:
            raise InputError(f"Job {self.spec.job_id!r}: its duration must be positive and finite")


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by time of submission. ``nodes`` are up from the start; ``outages`` happen later."""

    name: str
    jobs: tuple[TraceJob, ...]
    nodes: tuple[NodeUp, ...]
    outages: tuple[NodeDown | NodeUp, ...] = ()
    lost_runs: Mapping[str, int] = field(default_factory=dict)
    """Job -> how many of its first runs the infrastructure loses, each halfway."""
    failed_checks: tuple[tuple[float, str], ...] = ()
    """(From when, node): its next check before a start fails; it is repaired an hour later."""

    @property
    def devices(self) -> int:
        return sum(node.n_devices for node in self.nodes)

    def clairvoyant(self) -> Trace:
        """The same trace with every estimate equal to the actual duration."""
        jobs = tuple(TraceJob(replace(j.spec, est_s=j.actual_s), j.actual_s) for j in self.jobs)
        return replace(self, jobs=jobs)


def cluster(text: str) -> tuple[NodeUp, ...]:
    """Nodes from a short text: ``16`` (one device each), ``2x8`` (two nodes of eight), ``v100=4,t4=2x8`` (types).

    Without a name the type is ``any``. Raises InputError.
    """
    nodes: list[NodeUp] = []
    for part in text.split(","):
        name, _, size = part.strip().rpartition("=")
        count, _, each = size.partition("x")
        if not count.isdigit() or (each and not each.isdigit()) or int(count) < 1 or int(each or 1) < 1:
            raise InputError(f"Devices {text!r} can't be read at {part!r}; examples: 16, 2x8, v100=4,t4=2x8")
        kind = name or "any"
        nodes += [NodeUp(0.0, f"{kind}-{i:03d}", kind, int(each or 1)) for i in range(int(count))]
    if len({node.node_id for node in nodes}) < len(nodes):
        raise InputError(f"Devices {text!r} name one type twice")
    return tuple(nodes)
