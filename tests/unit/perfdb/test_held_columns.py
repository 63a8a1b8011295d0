"""The arrays beside the held rows, against looking at each row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.perfdb.held_columns import CONFIGURATION, LOAD, Columns, Matching, Row
from inferbench_tasks.perfdb.newest_first import place_of

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: Where fields stand in the rows of these tests: when, who, a text, a figure; then load and configuration.
AT = {"created_at": 0, "name": 1, "model": 2, "p99": 3}
rows_of = st.lists(
    st.tuples(
        st.integers(0, 9).map(lambda minutes: _BEGIN + timedelta(minutes=minutes)),
        st.integers(0, 10**6).map(str),
        st.sampled_from([None, "a", "b", 1, 1.0, True, "c"]),
        st.one_of(st.none(), st.floats(0, 9)),
        st.sampled_from(["slow", "quick", "search"]),
        st.sampled_from(["one", "two", "three", "four"]),
    ),
    unique_by=itemgetter(1),
    max_size=25,
)
conditions = st.lists(st.sampled_from(["model", "p99", "load", "time"]), max_size=3)


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(sorted(rows, key=itemgetter(1)), key=itemgetter(0), reverse=True)


def narrowed(matching: Matching, rows: list[Row], by: list[str]) -> tuple[Matching, list[Row]]:
    """By arrays, and the obvious way."""
    for each in by:
        if each == "model":
            matching = matching.only(matching.judged(AT["model"], lambda value: value in ("a", 1)))
            rows = [row for row in rows if row[2] in ("a", 1)]
        elif each == "p99":
            matching = matching.only(matching.present("p99", itemgetter(3)))
            rows = [row for row in rows if row[3] is not None]
        elif each == "load":
            matching = matching.offered_any(lambda load: load != "slow")
            rows = [row for row in rows if row[LOAD] != "slow"]
        else:
            span = slice(1, max(1, len(matching.columns.rows) - 2))
            kept = set(map(itemgetter(1), matching.columns.rows[span]))
            matching = matching.within(span)
            rows = [row for row in rows if row[1] in kept]
    return matching, rows


def require_alike(matching: Matching, rows: list[Row]) -> None:
    """Every question has the answer that the rows themselves give."""
    assert list(matching) == rows and len(matching) == len(rows) and bool(matching) == bool(rows)
    assert matching[:3] == rows[:3] and [matching[at] for at in range(len(rows))] == rows
    loads: dict[str, int] = {}
    newest: dict[str, Row] = {}
    for row in rows:
        loads[row[LOAD]] = loads.get(row[LOAD], 0) + 1
        newest.setdefault(row[CONFIGURATION], row)
    assert list(matching.offered().items()) == list(loads.items())
    assert matching.newest_of_each() == list(newest.values())
    combinations, of_row = matching.offered_with("model", "model")
    assert [combinations[at] for at in of_row] == [(row[LOAD], row[2], row[2]) for row in rows]
    assert len(set(combinations)) == len(combinations) == len(set(of_row.tolist()))
    in_group = [{row[CONFIGURATION] for row, at in zip(rows, of_row, strict=True) if at == group}
                for group in range(len(combinations))]  # fmt: skip
    assert matching.configurations_of(of_row, len(combinations)) == list(map(len, in_group))
    assert matching.passing(lambda row: row[2] is None).tolist() == [row[2] is None for row in rows]
    assert matching.present("elsewhere", itemgetter(2)).tolist() == [row[2] is not None for row in rows]


@given(rows_of, conditions)
def test_answers_are_those_of_the_rows(rows: list[Row], by: list[str]) -> None:
    """Of all rows and of those that any conditions leave, none included."""
    newest = ordered(rows)
    require_alike(*narrowed(Matching(Columns(newest), AT), newest, by))


@given(rows_of, rows_of, conditions)
def test_arrays_grow_with_the_rows(rows: list[Row], more: list[Row], by: list[str]) -> None:
    """Asked before and after each row that is added, whatever its place, its values known or new; what was held before
    stays as it was.
    """
    columns = Columns(ordered(rows))
    known = list(rows)
    for row in more:
        if row[1] in {each[1] for each in known}:
            continue
        before = ordered(known)
        require_alike(*narrowed(Matching(columns, AT), before, by))
        at, again = place_of(columns.rows, row, itemgetter(0), itemgetter(1))
        grown = columns.with_row(row, at, again=again)
        require_alike(*narrowed(Matching(columns, AT), before, by))
        columns, known = grown, [*known, row]
    require_alike(*narrowed(Matching(columns, AT), ordered(known), by))


@given(
    rows_of,
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from([None, "a", "d"])), max_size=9),
    conditions,
)
def test_arrays_follow_rows_that_change_and_go(
    rows: list[Row], turns: list[tuple[int, str | None]], by: list[str]
) -> None:
    """A row goes, or has another value: the arrays that were made before say what the rows say."""
    columns = Columns(ordered(rows))
    for place, model in turns:
        known = list(columns.rows)
        if not known:
            return
        require_alike(*narrowed(Matching(columns, AT), known, by))
        at = place % len(known)
        if model is None:
            columns = columns.without(at)
            known = [*known[:at], *known[at + 1 :]]
        else:
            other: Row = (*known[at][:2], model, *known[at][3:])
            columns = columns.with_row(other, at, again=True)
            known = [*known[:at], other, *known[at + 1 :]]
        require_alike(*narrowed(Matching(columns, AT), known, by))


def test_a_row_that_is_told_of_twice_stands_there_once() -> None:
    """In place of the first, with its own values."""
    rows: list[Row] = [(_BEGIN, "x", "a", 1.0, "slow", "one")]
    columns = Columns(rows)
    assert Matching(columns, AT).present("p99", itemgetter(3)).tolist() == [True]
    again: Row = (_BEGIN, "x", "b", None, "slow", "one")
    grown = Matching(columns.with_row(again, 0, again=True), AT)
    assert list(grown) == [again] and grown.present("p99", itemgetter(3)).tolist() == [False]


def test_fields_of_as_many_values_as_rows_are_judged_one_by_one() -> None:
    """So are mappings, which nothing tells apart at once."""
    rows: list[Row] = [(_BEGIN, str(at), {"a": at}, float(at), "slow", "one") for at in range(3000)]
    matching = Matching(Columns(rows), AT)
    assert matching.judged(3, lambda value: value < 5).sum() == 5
    assert matching.judged(2, lambda value: value["a"] >= 2990).sum() == 10
    assert matching.only(np.arange(3000) < 100).judged(3, lambda value: value > 90).sum() == 9


def test_many_combinations_are_told_apart_as_few_are() -> None:
    """Beyond what a table of all that could be would hold."""
    rows: list[Row] = [
        (_BEGIN, str(at), str(at), float(at % 7), f"load {at % 1500}", f"{at % 13}") for at in range(3000)
    ]
    paths: dict[str, Any] = AT
    combinations, of_row = Matching(Columns(rows), paths).offered_with("name", "p99")
    assert [combinations[at] for at in of_row] == [(row[LOAD], row[1], row[3]) for row in rows]
