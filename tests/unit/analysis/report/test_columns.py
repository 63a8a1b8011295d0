"""Measures of answers in the table of runs: in per cent what is counted, plain what has a scale of its own."""

from __future__ import annotations

from inferbench_tasks.analysis.report.columns import columns_of
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.figures_of_quality import QUALITY_FIGURES
from tests.unit.analysis.builders import view

QUALITY = {
    "exact_match_ratio": 0.915, "word_error_ratio": 0.0171, "character_error_ratio": 1.25, "psnr_db": 31.5,
    "target_spearman": 0.5, "largest_difference_ratio": 0.0171,
}  # fmt: skip


def test_rates_of_errors_stand_in_per_cent_beside_shares_of_right_answers() -> None:
    """1.71% word errors beside 91.50% exact matches, and 125% where more is wrong than is there. A ratio to the largest
    value, decibels and a correlation are no shares."""
    run = view(None)
    run.summary = {"quality": {name: {"value": value} for name, value in QUALITY.items()}}
    assert {column.title: column.cell(run) for column in columns_of([run])} == {
        "exact match": "91.50%",
        "word errors": "1.71%",
        "character errors": "125.00%",
        "PSNR, dB": "31.5",
        "Spearman of targets, 1": "0.5",
        "difference from source, 1": "0.0171",
    }


def test_what_is_in_per_cent_and_may_be_above_one_is_no_share() -> None:
    """So that a bound above 1 is one, and none of its figures is taken for 100% at the most."""
    assert {figure.name for figure in QUALITY_FIGURES if figure.in_percent} == {
        "top1_ratio", "top5_ratio", "agreement_ratio", "exact_match_ratio", "word_error_ratio",
        "character_error_ratio", "own_decision_ratio",
    }  # fmt: skip
    rates = [FIGURES[name] for name in ("word_error_ratio", "character_error_ratio")]
    assert not any(figure.share for figure in rates) and FIGURES["exact_match_ratio"].share
    assert [figure.meaning for figure in rates] == ["Word error rate, 1", "Character error rate, 1"]
    assert FIGURES["word_error_ratio"].axis == "word errors, %"
