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

    def read_ns(self) -> int:
        return 1000

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


@pytest.mark.parametrize(("most_ns", "timed"), [(None, 2), (1000.0, 2), (999.0, 1)])
def test_a_round_that_can_no_longer_count_is_given_up(
    most_ns: float | None, timed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the network during which it waited for too long; the others are not timed in it. What it took until then
    is told all the same."""
    monkeypatch.setattr(child, "ThreadWaits", Waits)
    networks: dict[str, Any] = {name: Network() for name in "ab"}
    references: dict[str, Any] = {"dense": Network()}
    plan = Plan(
        items=[Item(name=name, path=tmp_path / name, feeds=tmp_path / name) for name in networks], cores=[0], threads=1,
        method=Method(), sweep_bytes=8, folder=tmp_path, seed=1,
    )  # fmt: skip
    journal = Journal(tmp_path / "j")
    made, times = child._round(plan, networks, references, np.ones(1), 0, journal, lambda **line: None, most_ns)
    assert sum(network.timed for network in networks.values()) == timed
    assert references["dense"].timed == (2 if timed == 2 else 1)
    assert (None if timed == 1 else {"a", "b"}) == (None if times is None else set(times))
    assert made.taken_ns.keys() == set("ab"[:timed]) and all(ns > 0 for ns in made.taken_ns.values())
    assert made.took_ns >= sum(made.taken_ns.values())
    assert made.wait_ratio == pytest.approx(1000 / made.took_ns)
    read = Journal(tmp_path / "j")
    assert len(read.rounds) == (timed == 2)
    assert read.open is None or len(read.open.times) == 1
