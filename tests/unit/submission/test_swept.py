"""Columns under ``sweep`` as they were written, by documents written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.submission.swept import Column, columns_of, zip_groups


def test_every_column_has_its_place() -> None:
    """Of a grid with and without a key of its own, of a lone group of ``zip`` and of several, in their order."""
    lone = {"serve.threads": [1, 2], "zip": {"stack": ["a"], "model": [{}]}}
    assert list(columns_of(lone)) == [
        Column(("sweep", "serve.threads"), "serve.threads", [1, 2]),
        Column(("sweep", "zip", "stack"), "stack", ["a"]),
        Column(("sweep", "zip", "model"), "model", [{}]),
    ]
    several = {"grid": {"stack": ["a"]}, "zip": [{"model": [{}]}, {"stack": ["b"]}], "order": "listed"}
    assert [column.at for column in columns_of(several)] == [
        ("sweep", "grid", "stack"), ("sweep", "zip", 0, "model"), ("sweep", "zip", 1, "stack"),
    ]  # fmt: skip


def test_values_are_the_documents_own() -> None:
    """So that a name can be replaced where it stands."""
    sweep = {"evaluate.dataset": ["words@^1"]}
    (column,) = columns_of(sweep)
    column.values[0] = "words"
    assert sweep == {"evaluate.dataset": ["words"]}


@pytest.mark.parametrize(
    "sweep", [None, 5, [1], {}, {"stack": "a"}, {"grid": 5}, {"zip": 5}, {"zip": [5, None]}, {5: [1]}]
)
def test_what_is_of_another_type_is_passed_over(sweep: Any) -> None:
    """The schema tells of it."""
    assert list(columns_of(sweep)) == []


@pytest.mark.parametrize("wrong", [5, "a", False, ""])
def test_a_group_that_is_none_stays_for_the_schema(wrong: Any) -> None:
    """It is a group too, and so is one of none in a list; only without ``zip`` there is none."""
    assert zip_groups({"zip": wrong}) == [(("sweep", "zip"), wrong)]
    assert zip_groups({"zip": [wrong]}) == [(("sweep", "zip", 0), wrong)]
    assert zip_groups({}) == zip_groups({"zip": []}) == zip_groups({"zip": None}) == []
