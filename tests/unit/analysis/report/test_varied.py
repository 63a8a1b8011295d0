"""The report's table of what the pre-processing changes."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report import answers
from tests.unit.analysis.report.test_answers import run

VARIED: dict[str, Any] = {
    "measure": "top1_ratio",
    "processor": "Xeon",
    "plain": {"measures": {"top1_ratio": {"value": 0.9, "ci95": [0.8, 0.95]}}, "preprocess_ms": {"median": 1.234}},
    "variants": [
        {
            "variant": "resize: nearest",
            "inputs_changed": 40,
            "measures": {"top1_ratio": {"value": 0.8, "ci95": [0.7, 0.9]}},
            "answers_changed": 6,
            "against_plain": {
                "difference": -0.1, "ci95": [-0.2, 0.01], "only_plain": 5, "only_variant": 1, "p_value": 0.1,
                "p_corrected": 0.219,
            },
            "preprocess_ms": {"median": 0.5},
        },
        {
            "variant": "crop: 0.5",
            "inputs_changed": 40,
            "withheld": "2 of 40 samples got no answer",
            "preprocess_ms": {"median": 2.0},
        },
    ],
}  # fmt: skip


def test_a_row_for_each_variant() -> None:
    """With interval, difference in points, corrected p, samples and time; what is withheld says why; where it was timed
    stands below."""
    view = run("a", {3})
    view.evaluation["varied"] = VARIED
    (table,) = (each for each in answers.tables([view]) if each["title"] == "What the pre-processing changes")
    assert table["head"] == [
        "pre-processing", "top-1", "points (95%)", "p", "answered otherwise", "other inputs",
        "pre-processing, ms a sample",
    ]  # fmt: skip
    assert table["rows"] == [
        ["plain", "90.00% (80.00% to 95.00%)", "–", "–", "–", "–", "1.23"],
        [
            "resize: nearest",
            "80.00% (70.00% to 90.00%)",
            "-10.00 (-20.00 to +1.00)",
            "0.22",
            "6",
            "40",
            "0.5",
        ],
        ["crop: 0.5", "2 of 40 samples got no answer", "–", "–", "–", "40", "2"],
    ]
    assert table["note"].endswith("where the samples were made: Xeon.")


def test_one_table_for_all_runs() -> None:
    """A column names the run; a run that varied nothing has no row, and without any there is no table."""
    first, second, third = (run(name, {3}) for name in "abc")
    assert all("pre-processing" not in each["title"] for each in answers.tables([first, second]))
    first.evaluation["varied"] = second.evaluation["varied"] = VARIED
    (table,) = (each for each in answers.tables([first, second, third]) if "pre-processing" in each["title"])
    assert [row[0] for row in table["rows"]] == ["a"] * 3 + ["b"] * 3
