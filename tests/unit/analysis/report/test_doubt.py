"""A figure that is an estimate says so wherever the report shows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.analysis.report.compose import _doubt, columns_of

FIGURES = {
    "energy.joule_per_request": 0.002, "co2_g_per_1k": 0.0004, "cost_usd_per_1k": 0.0001, "cost.unverified": True,
}  # fmt: skip


def view(method: str) -> Any:
    return SimpleNamespace(figure={**FIGURES, "energy.method": method}.get)


@pytest.mark.parametrize(
    ("method", "word"), [("codecarbon_estimate", "estimate"), ("nvml_counter", ""), ("rapl", "")]
)
def test_energy_and_carbon_without_a_meter_are_estimates(method: str, word: str) -> None:
    """By a meter: no word; the processor's data sheet: ``estimate``, for the joules and what follows from them."""
    assert {_doubt(view(method), p) for p in ("energy.joule_per_request", "co2_g_per_1k")} == {word}


def test_the_word_stands_in_the_columns_head() -> None:
    """Where it holds for all runs; where only for some, each cell has it."""
    titles = [c["title"] for c in columns_of([view("codecarbon_estimate")])]
    assert titles == [
        "energy, J/request (estimate)",
        "CO₂, g/1,000 requests (estimate)",
        "cost, USD/1,000 requests (unverified)",
    ]
    mixed = [c["title"] for c in columns_of([view("codecarbon_estimate"), view("rapl")])]
    assert mixed[:2] == ["energy, J/request", "CO₂, g/1,000 requests"]
