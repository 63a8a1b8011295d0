"""Evaluations as rows."""

from __future__ import annotations

from inferbench_tasks.analysis.evaluations.listed import row
from tests.unit.perfdb.builders import result


def test_an_energy_stands_beside_its_method() -> None:
    """2 J of all packages and 0.1 J of a server's share are in one column: each says which it is; none says nothing."""
    for energy in ({"joule_per_sample": 2.0, "method": "rapl"}, {"joule_per_sample": None, "method": None}):
        made = row(result("run", summary={"energy": energy}).model_dump())
        assert made["joule_per_sample"] == energy["joule_per_sample"]
        assert made["energy_method"] == energy["method"]
