"""The free devices as one decision sees them: placements that it proposes use them up, reservations hold them back."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from inferbench_tasks.scheduling.model import usable_devices
from inferbench_tasks.scheduling.nodes import DeviceType


class Pool:
    """The free devices of one type. ``open``: how many of a node's free devices are not held for a reservation.

    Best fit: among the nodes with enough, the one with the fewest open devices, so that whole nodes stay whole for
    jobs that need several devices.
    """

    __slots__ = ("_by_open", "devices", "free", "open", "share_permille", "usable")

    def __init__(self, kind: DeviceType) -> None:
        self.free = {node_id: list(node.free) for node_id, node in kind.with_free.items()}
        self.open = {node_id: len(devices) for node_id, devices in self.free.items()}
        self.devices = sum(self.open.values())
        self.usable = kind.usable
        self._by_open: dict[int, list[str]] = {}
        for node_id, count in self.open.items():
            self._by_open.setdefault(count, []).append(node_id)
        for heap in self._by_open.values():
            heapify(heap)
        self.share_permille = self._share()

    def find(self, n_devices: int, avoid: frozenset[str]) -> str | None:
        """The best-fitting node with that many open devices, None if there is none."""
        if avoid:
            fitting = [
                (count, node_id)
                for node_id, count in self.open.items()
                if min(count, len(usable_devices(node_id, self.free[node_id], avoid))) >= n_devices
            ]
            return min(fitting)[1] if fitting else None
        for count in sorted(self._by_open):
            heap = self._by_open[count]
            while heap and self.open[heap[0]] != count:
                heappop(heap)
            if not heap:
                del self._by_open[count]
            elif count >= n_devices:
                return heap[0]
        return None

    def fits(self, node_id: str, n_devices: int, avoid: frozenset[str]) -> bool:
        """Whether a node's free devices suffice, those held for a reservation included."""
        return len(usable_devices(node_id, self.free[node_id], avoid)) >= n_devices

    def use(
        self, node_id: str, n_devices: int, avoid: frozenset[str], *, held: bool = False
    ) -> tuple[int, ...]:
        """Take devices of a node, the lowest first; ``held`` ones if open ones do not suffice."""
        indexes = usable_devices(node_id, self.free[node_id], avoid)[:n_devices]
        self.free[node_id] = [d for d in self.free[node_id] if d not in indexes]
        left = self.open[node_id] - n_devices
        self.set_open(node_id, max(0, left) if held else left)
        return indexes

    def set_open(self, node_id: str, count: int) -> None:
        """How many free devices of a node anybody may use."""
        self.devices += count - self.open[node_id]
        self.open[node_id] = count
        if count:
            heappush(self._by_open.setdefault(count, []), node_id)
        self.share_permille = self._share()

    def _share(self) -> int:
        return 1000 * self.devices // self.usable if self.usable else 0
