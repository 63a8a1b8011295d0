"""The report's section on devices: there only where a model ran on several."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.report import devices
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import sections
from tests.unit.analysis.builders import records, view
from tests.unit.analysis.devices.builders import CPU, MODEL, T4


def one(run_id: str, device: dict[str, Any], latency_ms: float, rate_rps: float, batch: int = 1) -> RunView:
    job = {"load__arrivals": {"kind": "closed_loop", "concurrency": 1}, "load__batch_size": batch}
    table = records(latency_ms, rate_rps=rate_rps, batch_size=batch)
    return view(table, run_id, job=job, device=device, model=MODEL)


def test_two_devices_are_set_side_by_side() -> None:
    """The CPU serves 100 samples/s in 10 ms, the T4 100 requests of 8 in 5 ms: 8 times
    as much, in chart and table.
    """
    runs = [one("cpu", CPU, 10.0, 100.0), one("gpu", T4, 5.0, 100.0, 8)]
    (section,) = [s for s in sections(runs) if s.title == "Devices"]
    assert len(section.charts) == 1 and "AMD EPYC 7R32, 2 cores" in section.text
    (table,) = section.tables
    assert [row[1] for row in table["rows"]] == ["AMD EPYC 7R32, 2 cores", "Tesla T4, 4 cores"]
    speedups = [float(row[3].split(" ")[0]) for row in table["rows"]]
    assert speedups == [1.0, pytest.approx(8.0, rel=0.01)]


def test_one_device_has_no_section() -> None:
    """Nothing is faster than itself."""
    runs = [one("a", CPU, 10.0, 100.0), one("b", CPU, 5.0, 100.0, 8)]
    assert devices.speedups_of(runs).rows == []
    assert "Devices" not in [section.title for section in sections(runs)]


def test_what_cannot_stand_beside_others_is_no_reference() -> None:
    """A CPU's run that is not valid, or with requests that come by themselves, and a GPU's: a report without a section,
    and with a second GPU one over the first that has one user.
    """
    open_loop = view(
        records(10.0),
        "cpu",
        job={"load__arrivals": {"kind": "poisson", "rate_rps": 50.0}},
        device=CPU,
        model=MODEL,
    )
    other = {**T4, "name": "Tesla V100"}
    assert devices.speedups_of([open_loop, one("gpu", T4, 5.0, 100.0)]).rows == []
    found = devices.speedups_of([open_loop, one("gpu", T4, 5.0, 100.0), one("v100", other, 4.0, 100.0)])
    assert [row["device"] for row in found.rows] == ["Tesla T4, 4 cores", "Tesla V100, 4 cores"]


def test_each_model_stands_over_its_own_reference() -> None:
    """A model on the CPU and the T4, another on the T4 and a V100: nobody measured the second on the CPU, and it has
    its rows all the same.
    """

    def of(name: str, run_id: str, device: dict[str, Any], latency_ms: float) -> RunView:
        job = {"load__arrivals": {"kind": "closed_loop", "concurrency": 1}, "load__batch_size": 1}
        model = {**MODEL, "name": name, "source_digest": name * 32}
        return view(records(latency_ms), run_id, job=job, device=device, model=model)

    v100 = {**T4, "name": "Tesla V100"}
    runs = [of("m", "a", CPU, 10.0), of("m", "b", T4, 5.0), of("n", "c", T4, 5.0), of("n", "d", v100, 4.0)]
    found = devices.speedups_of(runs)
    assert found.notes == []
    (table,) = devices.table(found)
    assert [row[1] for row in table["rows"]] == [
        "AMD EPYC 7R32, 2 cores",
        "Tesla T4, 4 cores over AMD EPYC 7R32, 2 cores",
        "Tesla T4, 4 cores",
        "Tesla V100, 4 cores over Tesla T4, 4 cores",
    ]
    assert "its model's reference (AMD EPYC 7R32, 2 cores; Tesla T4, 4 cores)" in devices.words(found)
