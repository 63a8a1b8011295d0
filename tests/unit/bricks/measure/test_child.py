"""A round of the process that times networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.bricks.measure import child
from inferbench_tasks.bricks.measure.child import Item, Plan
from inferbench_tasks.bricks.measure.journal import Journal
from inferbench_tasks.bricks.measure.method import Method


class Waits:
    """Of a process that has waited for its cores for so long, ns."""

    def __init__(self, ns: int) -> None:
        self._ns = ns

    def read_ns(self) -> int:
        return self._ns

    def close(self) -> None:
        """It has no files."""


class Network:
    """A network that takes a microsecond."""

    device_ns: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.timed = 0

    def warm_ns(self, runs: int, budget_s: float, within_ratio: float = 0.0) -> list[int]:
        self.timed += 1
        return [1000] * 5

    def streamed_ns(self, runs: int, budget_s: float, sweep: Any, within_ratio: float = 0.0) -> list[int]:
        return [2000] * 5


class Stolen:
    """Of cores of which the hypervisor took so much, ns."""

    def __init__(self, cores: list[int], ns: int | None) -> None:
        self._cores, self._ns = cores, ns

    def least_ns(self) -> int | None:
        return self._ns


#: A round that takes no longer than 0.1 s: it may wait 1% of that for its cores, and lose less than 5% of them.
MOST_NS = 100_000_000.0


@pytest.mark.parametrize(
    ("most_ns", "waited_ns", "stolen_ns", "timed"),
    [
        (None, 10**15, 10**15, 2),
        (MOST_NS, 1_000_000, 4_999_999, 2),
        (MOST_NS, 1_000_001, 0, 1),
        (MOST_NS, 1_000_001, 4_999_999, 1),
        (MOST_NS, 0, 5_000_000, 1),
        (MOST_NS, 0, None, 2),
    ],
)
def test_a_round_that_can_no_longer_count_is_given_up(
    most_ns: float | None, waited_ns: int, stolen_ns: int | None, timed: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """After the network during which it waited for too long, or the hypervisor took too much; the others are not timed
    in it. What it took until then is told all the same; what the hypervisor took is not where it may take so much."""
    monkeypatch.setattr(child, "ThreadWaits", lambda: Waits(waited_ns))
    monkeypatch.setattr(child, "StolenTime", lambda cores: Stolen(cores, stolen_ns))
    networks: dict[str, Any] = {name: Network() for name in "ab"}
    references: dict[str, Any] = {"dense": Network()}
    plan = Plan(
        items=[Item(name=name, path=tmp_path / name, feeds=tmp_path / name) for name in networks], cores=[0], threads=1,
        method=Method(), sweep_bytes=8, folder=tmp_path, seed=1,
    )  # fmt: skip
    journal = Journal(tmp_path / "j")
    made, times = child._round(
        plan, networks, references, np.ones(1), 0, journal, lambda **line: None, most_ns
    )
    assert sum(network.timed for network in networks.values()) == timed
    assert references["dense"].timed == (2 if timed == 2 else 1)
    assert (None if timed == 1 else {"a", "b"}) == (None if times is None else set(times))
    assert made.taken_ns.keys() == set("ab"[:timed]) and all(ns > 0 for ns in made.taken_ns.values())
    assert made.took_ns >= sum(made.taken_ns.values())
    assert made.wait_ratio == pytest.approx(waited_ns / made.took_ns)
    told = stolen_ns is not None and (timed == 2 or stolen_ns >= 5_000_000)
    assert made.steal_ratio == (pytest.approx((stolen_ns or 0) / made.took_ns) if told else None)
    read = Journal(tmp_path / "j")
    assert len(read.rounds) == (timed == 2)
    assert read.open is None or len(read.open.times) == 1
