"""The queues of the paper's policies: a job joins one node's queue when it is submitted (tier 1), and each node runs
its queue in its own order (tier 2). The paper: Algorithm 1, section 4.3.2.

rr   the nodes take turns.
qa   the node with the least expected work per healthy device: its queue and what is left of its running jobs.

A job stays in its queue while that node can still run it; when the node dies, it joins another. The jobs of a node
start strictly in its order: one that needs more devices than are free holds up those behind it.
"""

from __future__ import annotations

from heapq import heappop, heappush

from inferbench_tasks.scheduling.lanes import Entry, Key, Tenant, order_keys
from inferbench_tasks.scheduling.model import Params, usable_devices
from inferbench_tasks.scheduling.nodes import Node, Nodes


class NodeQueue:
    """What waits for one node. ``work_us``: device-seconds, in microseconds."""

    __slots__ = ("heap", "work_us")

    def __init__(self) -> None:
        self.heap: list[Key] = []
        self.work_us = 0

    def first(self, count: int) -> list[Entry]:
        """The next ``count`` jobs; the queue stays as it is."""
        keys: list[Key] = []
        visited: set[str] = set()
        while self.heap and len(keys) < count:
            key = heappop(self.heap)
            entry: Entry = key[4]
            if entry.waiting and entry.keys[0] is key and entry.spec.job_id not in visited:
                keys.append(key)
                visited.add(entry.spec.job_id)
        for key in keys:
            heappush(self.heap, key)
        return [key[4] for key in keys]


class EarlyQueue:
    """All waiting jobs of an early-binding policy, by node."""

    def __init__(self, params: Params, nodes: Nodes) -> None:
        self.params = params
        self.live = 0
        self.queues: dict[str, NodeQueue] = {}
        self._nodes = nodes
        self._turn: dict[frozenset[str], str] = {}
        self._homeless: dict[str, Entry] = {}

    def add(self, entry: Entry, at_s: float, node_id: str | None = None) -> None:
        """A new or returned job joins the queue of ``node_id``, or of a node that the policy chooses.

        It stays homeless while no node can run it.
        """
        entry.waiting = True
        self.live += 1
        self._bind(entry, self._nodes.by_id[node_id] if node_id else self._choose(entry, at_s))

    def take(self, entry: Entry, held: int) -> None:
        entry.waiting = False
        self.live -= 1
        self._unbind(entry)
        self.hold(entry.tenant, held)

    def hold(self, tenant: Tenant, devices: int) -> None:
        tenant.held += devices

    def tidy(self, entry: Entry) -> None:
        """Nothing is left behind by a job."""

    def rebind(self, at_s: float) -> None:
        """Nodes came or went: the jobs of dead nodes, and those without a node, join another, oldest first."""
        lost = dict(self._homeless)
        for node_id, queue in self.queues.items():
            node = self._nodes.by_id[node_id]
            lost.update({e.spec.job_id: e for e in self._bound(queue) if not _suits(node, e)})
        for entry in sorted(lost.values(), key=lambda e: (e.submit_us, e.spec.job_id)):
            self._unbind(entry)
            self._bind(entry, self._choose(entry, at_s))

    @staticmethod
    def _bound(queue: NodeQueue) -> list[Entry]:
        return [key[4] for key in queue.heap if key[4].waiting and key[4].keys[0] is key]

    def _bind(self, entry: Entry, node: Node | None) -> None:
        # A new key, so that one left behind in an earlier queue is stale.
        entry.keys = order_keys(entry, self.params, 0)
        if node is None:
            self._homeless[entry.spec.job_id] = entry
            return
        queue = self.queues.setdefault(node.node_id, NodeQueue())
        entry.bound = node.node_id
        queue.work_us += entry.est_us * entry.spec.n_devices
        heappush(queue.heap, entry.keys[0])

    def _unbind(self, entry: Entry) -> None:
        self._homeless.pop(entry.spec.job_id, None)
        if entry.bound is not None:
            self.queues[entry.bound].work_us -= entry.est_us * entry.spec.n_devices
            entry.bound = None

    def _choose(self, entry: Entry, at_s: float) -> Node | None:
        suited = [n for n in self._nodes.by_id.values() if _suits(n, entry)]
        if not suited:
            return None
        if self.params.binding == "qa":
            return min(suited, key=lambda n: (self._wait_s(n, at_s), n.node_id))
        types = entry.spec.device_types
        suited.sort(key=lambda n: n.node_id)
        last = self._turn.get(types)
        following = [n for n in suited if last is not None and n.node_id > last]
        node = (following or suited)[0]
        self._turn[types] = node.node_id
        return node

    def _wait_s(self, node: Node, at_s: float) -> float:
        queue = self.queues.get(node.node_id)
        work_s = queue.work_us / 1e6 if queue else 0.0
        for entry in node.running.values():
            if entry.run is not None:
                work_s += max(0.0, entry.run.est_end_s - at_s) * len(entry.run.devices)
        return work_s / node.usable


def _suits(node: Node, entry: Entry) -> bool:
    """Whether the node, once idle, could run the job."""
    spec = entry.spec
    if node.down or node.type_name not in spec.device_types or node.usable < spec.n_devices:
        return False
    return not spec.avoid or len(usable_devices(node.node_id, node.fit(), spec.avoid)) >= spec.n_devices
