"""A figure that is an estimate says so wherever the report shows it."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.report.columns import columns_of, doubt_of
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.builders import view as records_view

SUMMARY: dict[str, Any] = {
    "energy": {"joule_per_request": 0.002}, "co2_g_per_1k": 0.0004, "cost_usd_per_1k": 0.0001,
    "cost": {"unverified": True},
}  # fmt: skip


def view(method: str) -> RunView:
    run = records_view(None)
    run.summary = {**SUMMARY, "energy": {**SUMMARY["energy"], "method": method}}
    return run


@pytest.mark.parametrize(
    ("method", "word"), [("codecarbon_estimate", "estimate"), ("nvml_counter", ""), ("rapl", "")]
)
def test_energy_and_carbon_without_a_meter_are_estimates(method: str, word: str) -> None:
    """By a meter: no word; the processor's data sheet: ``estimate``, for the joules and what follows from them."""
    names = ("joule_per_request", "joule_per_sample", "co2_g_per_1k", "co2_g_per_1k_samples")
    assert {doubt_of(view(method), FIGURES[name]) for name in names} == {word}


def test_the_word_stands_in_the_columns_head() -> None:
    """Where it holds for all runs; where only for some, each cell has it."""
    titles = [column.title for column in columns_of([view("codecarbon_estimate")])]
    assert titles == [
        "energy, J/request (estimate)",
        "CO₂, g/1,000 requests (estimate)",
        "cost, USD/1,000 requests (unverified)",
    ]
    mixed = columns_of([view("codecarbon_estimate"), view("rapl")])
    assert [column.title for column in mixed][:2] == ["energy, J/request", "CO₂, g/1,000 requests"]
    assert [mixed[0].cell(view(method)) for method in ("codecarbon_estimate", "rapl")] == [
        "0.002 (estimate)",
        "0.002",
    ]


def test_what_counts_a_machine_of_which_the_run_had_a_part_says_so() -> None:
    """The packages of one core of two hold the idle power of the other; of both they are the run's."""
    run = view("rapl")
    for cores, word in ((1.0, "whole machine"), (2.0, "")):
        run.summary["energy"]["machine"] = {"cores": cores, "of_cores": 2, "others_ratio": 0.0}
        assert doubt_of(run, FIGURES["joule_per_request"]) == word
        assert doubt_of(run, FIGURES["co2_g_per_1k"]) == word
