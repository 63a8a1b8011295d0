"""The devices: which are free, which are unfit, what runs where."""

from __future__ import annotations

from inferbench_tasks.scheduling.events import NodeHealth
from inferbench_tasks.scheduling.lanes import Entry
from inferbench_tasks.scheduling.model import Health, NodeState, NodeView


class Node:
    """A worker with ``total`` devices of one type. ``free`` are healthy and not leased, ascending."""

    __slots__ = ("bad", "down", "ends_s", "free", "leased", "node_id", "running", "total", "type_name")

    def __init__(self, node_id: str, type_name: str, total: int) -> None:
        self.node_id = node_id
        self.type_name = type_name
        self.total = total
        self.down = False
        self.bad: dict[int, NodeHealth] = {}
        self.leased: dict[int, str] = {}
        self.running: dict[str, Entry] = {}
        self.free: list[int] = []
        self.ends_s: list[float] = []
        """When its busy healthy devices are expected to be free, ascending."""

    @property
    def usable(self) -> int:
        """The number of healthy devices, busy or not."""
        return 0 if self.down else self.total - len(self.bad)

    @property
    def health(self) -> Health:
        if self.down:
            return "suspect"
        if len(self.bad) < self.total:
            return "ok"
        return "quarantined" if "quarantined" in self.bad.values() else "suspect"

    def fit(self) -> list[int]:
        """The devices that a job may use, busy or not."""
        return [] if self.down else [d for d in range(self.total) if d not in self.bad]

    def view(self) -> NodeView:
        running = tuple(
            (job, len(e.run.devices), e.run.est_end_s) for job, e in self.running.items() if e.run
        )
        return NodeView(self.node_id, self.type_name, tuple(self.free), self.health, running)


class DeviceType:
    """The nodes of one device type; ``with_free``: something is free there; ``wide``: more than one device."""

    __slots__ = ("nodes", "usable", "wide", "with_free")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.with_free: dict[str, Node] = {}
        self.wide: dict[str, Node] = {}
        self.usable = 0


class Nodes:
    """All nodes, by id and by device type."""

    def __init__(self) -> None:
        self.by_id: dict[str, Node] = {}
        self.types: dict[str, DeviceType] = {}
        self.usable = 0
        self.free = 0

    def up(self, node_id: str, type_name: str, total: int) -> Node:
        """A node is new, back, or was changed; what it runs goes on."""
        node = self.by_id.get(node_id)
        if node is None:
            node = self.by_id[node_id] = Node(node_id, type_name, total)
        else:
            self._leave(node)
        node.type_name, node.total, node.down = type_name, total, False
        node.bad.clear()
        kind = self.types.setdefault(type_name, DeviceType())
        kind.nodes[node_id] = node
        if total > 1:
            kind.wide[node_id] = node
        self._count(node)
        return node

    def down(self, node: Node) -> None:
        node.down = True
        self._recount(node)

    def mark(self, node: Node, devices: tuple[int, ...], why: NodeHealth) -> None:
        """Devices are unfit until the node is ``up`` again; quarantined outranks suspect."""
        for device in devices:
            if node.bad.get(device) != "quarantined":
                node.bad[device] = why
        self._recount(node)

    def lease(self, node: Node, devices: tuple[int, ...], job_id: str, entry: Entry) -> None:
        """Its run begins next, which refreshes the node."""
        for device in devices:
            node.leased[device] = job_id
        node.running[job_id] = entry

    def release(self, node: Node, devices: tuple[int, ...], job_id: str) -> None:
        for device in devices:
            del node.leased[device]
        del node.running[job_id]
        self.refresh(node)

    def states(self) -> dict[str, NodeState]:
        return {n.node_id: NodeState(n.total, frozenset(n.bad), n.down) for n in self.by_id.values()}

    def _leave(self, node: Node) -> None:
        kind = self.types[node.type_name]
        kind.usable -= node.usable
        self.usable -= node.usable
        del kind.nodes[node.node_id]
        kind.wide.pop(node.node_id, None)
        kind.with_free.pop(node.node_id, None)

    def _count(self, node: Node) -> None:
        kind = self.types[node.type_name]
        kind.usable += node.usable
        self.usable += node.usable
        self.refresh(node)

    def _recount(self, node: Node) -> None:
        kind = self.types[node.type_name]
        usable = sum(n.usable for n in kind.nodes.values())
        self.usable += usable - kind.usable
        kind.usable = usable
        self.refresh(node)

    def refresh(self, node: Node) -> None:
        """What follows from a node's leases and health."""
        fit = node.fit()
        self.free -= len(node.free)
        node.free = [d for d in fit if d not in node.leased]
        self.free += len(node.free)
        busy = set(fit).intersection(node.leased)
        runs = [e.run for e in node.running.values() if e.run] if busy else []
        node.ends_s = sorted(run.est_end_s for run in runs for d in run.devices if d in busy)
        with_free = self.types[node.type_name].with_free
        if node.free:
            with_free[node.node_id] = node
        else:
            with_free.pop(node.node_id, None)
