"""A PerfDB whose device is somebody else's after some writes under its lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from inferbench_tasks.errors import LeaseLostError
from inferbench_tasks.perfdb.under_lease import HeldLease

LEASE = HeldLease(("a",), "nonce")


class Leased:
    """``writes``: what was done under the lease, in words. ``held``: after so many of them it is lost. ``met``: so many
    first insertions meet another's document of the same key.
    """

    def __init__(self, held: int = 1000, met: int = 0) -> None:
        self.writes: list[str] = []
        self.replaced: list[Any] = []
        self._held, self._met = held, met

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def collection(self, name: str) -> Any:
        def replace_one(where: Any, values: Any, *, upsert: bool, session: Any) -> None:
            self.replaced.append(values)

        return SimpleNamespace(replace_one=replace_one)

    def write_once(
        self, insert: Callable[[None], object], doing: str, lease: HeldLease | None = None
    ) -> bool:
        assert lease == LEASE
        if len(self.writes) == self._held:
            raise LeaseLostError("another has it")
        self.writes.append(doing)
        if self._met:
            self._met -= 1
            return False
        insert(None)
        return True
