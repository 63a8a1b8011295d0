"""What a stage's process says is looked at before it is used."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from inferbench_tasks.running.messages import MOST_LACKING, Answer, Progress, read, told

OUTPUT = {"output": {"a": 1}}


def said(message: Any) -> Any:
    return read(json.dumps(message).encode())


def test_what_a_stage_says_is_taken() -> None:
    """Progress with and without a total, an output, an error with and without a field."""
    assert said({"progress": [1, 2.5, "x"]}) == Progress(1, 2.5, "x")
    assert said({"progress": [0.5, None, ""]}) == Progress(0.5, None, "")
    assert said({**OUTPUT, "lacking": ["a.py"]}) == Answer(OUTPUT, ["a.py"])
    for error in ({"type": "InputError", "message": "x", "field": "a"}, {"type": "X", "message": ""}):
        assert said({"error": error}) == Answer({"error": error}, [])
    assert said({"error": {"type": "X", "message": "", "field": None}}).lacking == []


@pytest.mark.parametrize(
    "value",
    [
        *(
            [],
            [1, 2],
            [1, 2, 3],
            ["1", None, "x"],
            [None, None, "x"],
            [True, None, "x"],
            [1, "2", "x"],
            1,
            None,
            {},
        ),
        *([float("nan"), None, "x"], [1, float("inf"), "x"], [10**400, None, "x"]),
    ],
)
def test_a_progress_that_is_none_is_named(value: Any) -> None:
    """Whoever shows it counts on two numbers and a text."""
    assert said({"progress": value}) == "a progress that is not two numbers and a text"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ([], "no object"),
        (1, "no object"),
        ({}, "neither an output nor an error"),
        ({**OUTPUT, "error": {}}, "neither an output nor an error"),
        ({"output": 1}, "an output that is no object"),
        ({"error": "x"}, "an error that is no object"),
        ({"error": {"type": 1, "message": "x"}}, "without a type"),
        ({"error": {"type": "X"}}, "without a type"),
        ({"error": {"type": "X", "message": "x", "field": []}}, "field is no text"),
        ({**OUTPUT, "lacking": "ab"}, "no list of texts"),
        ({**OUTPUT, "lacking": [1]}, "no list of texts"),
    ],
)
def test_what_is_no_message_is_named(message: Any, why: str) -> None:
    """In words that a person finds the fault by."""
    answer = said(message)
    assert isinstance(answer, str) and why in answer


def test_no_more_sources_are_compiled_than_packages_have() -> None:
    """A list without end would be sorted and handed to a compiler."""
    assert len(said({**OUTPUT, "lacking": ["a.py"] * (MOST_LACKING + 5)}).lacking) == MOST_LACKING


def test_no_line_is_read_without_end_and_nothing_after_a_fault() -> None:
    """Its memory would be this process's."""
    line = json.dumps(OUTPUT).encode() + b"\n"
    assert list(told(io.BytesIO(line + line))) == [Answer(OUTPUT, [])] * 2
    assert list(told(io.BytesIO(b"x" * 100 + b"\n" + line), 50)) == ["a line of more than 50 bytes"]
    assert list(told(io.BytesIO(b"{\n" + line))) == ["a line that is no JSON"]
    assert read(b"[" * 100_000) == "a line that is no JSON" and read(b"\xff\n") == "a line that is no JSON"
