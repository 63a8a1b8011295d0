"""Results on stdout: for people, for programs, and harmless for a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import yaml

from inferbench_tasks.output import OutputFormat, cell, emit, first_of, fitting, safe, say
from tests.unit.perfdb.builders import result

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202etxt\x9b2J"


@pytest.mark.parametrize("output", [OutputFormat.json, OutputFormat.yaml])
def test_programs_read_what_was_given(output: OutputFormat, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML parse back to the values; NaN, infinities and numpy's numbers included."""
    row = {"a": float("nan"), "b": np.float64("inf"), "c": np.int64(3), "d": HOSTILE, "e": [None, True, "no"]}
    emit([row], output)
    text = capsys.readouterr().out
    parsed = json.loads(text) if output is OutputFormat.json else yaml.safe_load(text)
    assert parsed == [{"a": None, "b": None, "c": 3, "d": HOSTILE, "e": [None, True, "no"]}]


@pytest.mark.parametrize("output", list(OutputFormat))
@pytest.mark.parametrize("shape", [list, dict])
def test_no_value_steers_the_terminal(
    output: OutputFormat, shape: type, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was stored, no control or text-reordering character reaches stdout."""
    emit([{HOSTILE: HOSTILE}] if shape is list else {HOSTILE: {HOSTILE: HOSTILE}}, output)
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert "owned" in shown


def test_markup_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich's markup in a value is shown as it is."""
    emit([{"name": "[bold]x[/bold] [link=http://e]y[/link]"}], OutputFormat.table)
    assert "[bold]x[/bold] [link=http://e]y[/link]" in capsys.readouterr().out


def test_a_long_row_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe nothing is folded or cut: a head, a rule and a line per row."""
    emit([{"a": "x" * 500, "b": "y" * 500}], OutputFormat.table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "x" * 500 in lines[2]
    assert "y" * 500 in lines[2]


@pytest.mark.parametrize(
    ("width", "left_out"), [(14, ""), (13, "long"), (7, "long"), (6, "long, c"), (1, "long, c")]
)
def test_columns_are_left_out_where_the_terminal_is_narrow(
    width: int, left_out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Widths of 4, 3 and 1 with three blanks between are 14, without ``long`` 7; what is not expendable stays,
    whatever the width."""
    rows = [{"b": "xyz", "long": 1, "c": "x"}]
    shown = fitting(rows, ("b", "long", "c"), ("long", "c"), width)
    assert shown == [name for name in ("b", "long", "c") if name not in left_out.split(", ")]
    assert (f"too narrow: {left_out}." in capsys.readouterr().err) is bool(left_out)


def test_a_long_table_has_the_same_cells(capsys: pytest.CaptureFixture[str]) -> None:
    """A table of many rows has the columns of a short one, a line a row, numbers right and unsafe marks shown."""
    rows = [
        {"job": f"job {i}" + "\x1b" * (i == 3), "p99_ms": i / 8, "note": "x" * 300 if i == 5 else None}
        for i in range(600)
    ]
    emit(rows, OutputFormat.table)
    head, rule, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["job", "p99_ms", "note"] and set(rule) == {"─", " "}
    assert len(lines) == 600 and lines[3].startswith("job 3\\x1b") and lines[5].endswith("x" * 300)
    emit(rows[:9], OutputFormat.table)
    short = capsys.readouterr().out.splitlines()[2:]
    assert [line.split() for line in lines[:9]] == [line.split() for line in short]
    assert lines[1].index("0.1250") == head.index("p99_ms")


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing on stdout for people (a word on stderr), an empty list for programs."""
    emit([], OutputFormat.table)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Nothing" in shown.err
    emit([], OutputFormat.json)
    assert json.loads(capsys.readouterr().out) == []


def test_a_document_of_pydantic(capsys: pytest.CaptureFixture[str]) -> None:
    """A result prints as JSON with its date in UTC, and as a table of dotted names."""
    document = result(created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    emit(document, OutputFormat.json)
    assert json.loads(capsys.readouterr().out)["created_at"] == "2026-01-02T03:04:05.000Z"
    emit(document, OutputFormat.table)
    assert "summary.e2e_latency_ms.p99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567.891, "1234568"),
        (20.25, "20.25"),
        (0.0123456, "0.01235"),
        (1e-9, "1.000e-09"),
        (0.0, "0"),
        (float("nan"), "-"),
        (None, "-"),
        (7, "7"),
        (True, "yes"),
        ([1, "a\nb"], "1, a b"),
    ],
)
def test_a_cell(value: Any, shown: str) -> None:
    """Numbers keep four significant digits and everything before the point."""
    assert cell(value) == shown


def test_messages_are_safe_too(capsys: pytest.CaptureFixture[str]) -> None:
    """stderr gets the same care, line by line."""
    say(f"first\nsecond {HOSTILE}")
    assert capsys.readouterr().err == f"first\nsecond {safe(HOSTILE)}\n"


def test_a_list_that_is_cut_off_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Of three rows where two were asked for two, and that there are more; of two, and without a limit, nothing."""
    assert first_of([1, 2, 3], 2) == [1, 2]
    assert capsys.readouterr().err == "The first 2; more with --limit.\n"
    assert first_of([1, 2], 2) == [1, 2] and first_of([1, 2, 3], 0) == [1, 2, 3]
    assert capsys.readouterr().err == ""
