"""Rows of evaluations for a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.evaluations.listed import row
from inferbench_tasks.cli.evaluations_table import COLUMNS, EXPENDABLE, columns_of, in_short, notes_on
from inferbench_tasks.output import OutputFormat, emit, fitting
from tests.unit.analysis.evaluations.builders import evaluated

RUN = "digits-20260101T000000-12345678.001"


def listed(run: str = RUN, **more: Any) -> dict[str, Any]:
    """A row of twenty samples, of which one is wrong."""
    evaluation = more.pop("evaluation", {})
    return row(evaluated(run, {3}, evaluation=evaluation, **more).model_dump())


def test_a_row_has_its_first_measure_beside_speed() -> None:
    """19 of 20 are right, as the interval says; the verdict without its reasons, and no other of forty columns."""
    speed = {"e2e_latency_ms": {"p99": 20.25}, "throughput_samples_per_s": 79.5}
    (short,) = in_short([listed(verdict="invalid: late", summary=speed)])
    assert set(short) == set(COLUMNS)
    assert (short["measure"], short["value"], short["ci95"]) == ("top1_ratio", 0.95, [0.85, 1.0])
    assert (short["samples"], short["dataset"], short["verdict"]) == (20, "coins", "invalid")
    assert (short["p99_ms"], short["samples_per_s"], short["part"]) == (20.25, 79.5, None)


def test_samples_of_a_training_are_said_to_be_such() -> None:
    """Beside the data set, in every width."""
    data = {"training": True, "digest": "cd" * 32}
    assert in_short([listed(evaluation={"data": data})])[0]["dataset"] == "coins (training)"


def test_parts_have_a_column_where_there_are_any() -> None:
    """Which one it is, or that the row is all of so many."""
    part = listed(provenance={"job": {"evaluate": {"part": "1/8"}}})
    whole = listed(evaluation={"parts": 8})
    assert [each["part"] for each in in_short([part, whole, listed()])] == ["1/8", "all 8", None]
    assert "part" in columns_of(in_short([part, listed()])) and "part" not in columns_of(in_short([listed()]))


def test_what_is_withheld_is_told() -> None:
    """There is no measure in the row, and its reason stands below; of twelve of them ten."""
    rows = [listed(f"run-{at}", evaluation={"under_load": {"withheld": "why"}}) for at in range(12)]
    short = in_short(rows)
    assert {(each["measure"], each["value"], each["ci95"]) for each in short} == {("withheld", None, None)}
    assert notes_on(rows) == [
        *(f"run-{at}: why" for at in range(10)),
        "2 more are withheld; -o json has the reasons.",
    ]
    assert notes_on([listed()]) == [
        "Each run's first measure; `inferbench evaluations show RUN` and -o json have all."
    ]


@pytest.mark.parametrize(
    ("width", "fewer"),
    [(186, 0), (185, 1), (173, 2), (157, 3), (148, 4), (134, 5), (125, 6), (113, 7), (103, 8), (80, 8)],
)
def test_a_table_fits_the_terminal(width: int, fewer: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Its 14 columns are 35 + 8 + 9 + 11 + 6 + 7 + 7 + 10 + 6 + 13 + 9 + 6 + 13 + 7 characters wide and 13 x 3 apart,
    186. The least wanted are left out and told, the first of 9 + 3; run, model, data, measure and verdict never are."""
    speed = {"e2e_latency_ms": {"p99": 20.25}, "throughput_samples_per_s": 79.5}
    rows = in_short([listed(model={"name": "resnet50", "precision": "fp32"}, summary=speed)])
    columns = columns_of(rows)
    shown = fitting(rows, columns, EXPENDABLE, width)
    assert shown == [name for name in columns if name not in EXPENDABLE[:fewer]]
    assert ("too narrow" in capsys.readouterr().err) is bool(fewer)
    emit(rows, OutputFormat.table, shown)
    rule = capsys.readouterr().out.splitlines()[1]
    assert len(rule) == {0: 186, 1: 174, 2: 158, 3: 149, 4: 135, 5: 126, 6: 114, 7: 104, 8: 88}[fewer]
