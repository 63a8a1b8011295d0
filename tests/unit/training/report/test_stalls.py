"""Where a step's time goes, by differences of runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.perfdb.documents import DeviceInfo
from inferbench_tasks.training.report.stalls import difference, stalls
from inferbench_tasks.training.report.views import TrainingView
from tests.unit.training.report.results import view

PLACES = (("device", "warm"), ("memory", "warm"), ("disk", "warm"), ("disk", "cold"))


def run(
    where: str, read: str, factor: int, *, ci95: tuple[float, float] | None = None, **more: Any
) -> TrainingView:
    made = view(f"{where} {read}", factor)
    made.job = {"data": {"kind": "jpeg", "where": where, "read": read}, "train": {"batch_size": 8}, **more}
    made.result.device = DeviceInfo(kind="cpu", name="one", cores=2)
    assert made.timing is not None
    made.timing["step_ms"]["ci95"] = list(ci95) if ci95 else None
    return made


def test_stalls_are_differences_of_runs_that_differ_in_where_their_data_lies() -> None:
    """12 ms on the device, 24 in memory, 36 warm, 60 cold; a run of another batch is of no group."""
    views = [run(*place, factor) for factor, place in zip((1, 2, 3, 5), PLACES, strict=True)]
    other = run("disk", "warm", 9, train={"batch_size": 16})
    (table,) = stalls([*views, other])
    assert table["rows"] == [
        ["device warm", "12", "12 (no interval)", "12 (no interval)", "24 (no interval)"]
    ]
    assert stalls([*views[1:], other]) == []


def test_a_difference_has_the_interval_of_both_runs() -> None:
    """Errors of 1 and 2 ms over three rounds each: of 12 ms sqrt(5) ms, at Welch's 2.94 degrees of freedom."""
    t2 = 4.302652729749464
    one, other = run("memory", "warm", 2, ci95=(24 - 2 * t2, 24 + 2 * t2)), run("device", "warm", 1)
    assert other.timing is not None
    other.timing["step_ms"]["ci95"] = [12 - t2, 12 + t2]
    made = difference(one, other)
    assert made.interval is not None
    assert pytest.approx(2.941, abs=1e-3) == 25 / (16 / 2 + 1 / 2)
    assert made.interval == pytest.approx((12 - 3.2172 * math.sqrt(5), 12 + 3.2172 * math.sqrt(5)), rel=1e-3)
    assert str(made) == "12 (4.8 to 19.2)"


def test_runs_of_two_machines_are_no_difference() -> None:
    """Its data in memory on eight cores, on the device on two: what differs is not where the data lies."""
    memory = run("memory", "warm", 2)
    memory.result.device = DeviceInfo(kind="cpu", name="one", cores=8)
    assert stalls([run("device", "warm", 1), memory]) == []


def test_runs_of_two_hosts_are_no_difference() -> None:
    """The table goes by the same key as the diagnosis: held devices of two hosts of the same kind."""
    device, memory = run("device", "warm", 1), run("memory", "warm", 2)
    for view_, host in ((device, "a"), (memory, "b")):
        view_.result.extensions = {"devices": [{"device_id": f"{host}-0", "host": host}]}
    assert stalls([device, memory]) == []
    memory.result.extensions = device.result.extensions
    assert len(stalls([device, memory])) == 1


def test_preparing_beside_data_on_the_device_has_the_batches_in_it() -> None:
    """Without a run from memory the two can't be told apart, and the cell says so."""
    (table,) = stalls([run("device", "warm", 1), run("disk", "warm", 3)])
    assert table["rows"] == [["device warm", "12", "–", "24 (no interval) with batches", "–"]]
