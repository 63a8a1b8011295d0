"""Rows in the order of time: bounds and places, against looking at each row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.perfdb.newest_first import place_of, within

Row = tuple[datetime, str]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
time, name = itemgetter(0), itemgetter(1)
moments = st.integers(0, 6).map(lambda minutes: _BEGIN + timedelta(minutes=minutes))
some = st.lists(st.tuples(moments, st.sampled_from("abcdefgh")), unique_by=name, max_size=8)
HOLDS = {
    "$lt": lambda value, bound: value < bound, "$lte": lambda value, bound: value <= bound,
    "$gt": lambda value, bound: value > bound, "$gte": lambda value, bound: value >= bound,
}  # fmt: skip


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(sorted(rows, key=name), key=time, reverse=True)


@given(some, st.dictionaries(st.sampled_from(sorted(HOLDS)), moments, max_size=3))
def test_bounds_leave_the_rows_that_keep_each(rows: list[Row], bounds: dict[str, datetime]) -> None:
    """The same as judging row by row, for any bounds together, equal times and none left included."""
    newest = ordered(rows)
    span = within(newest, time, bounds)
    assert span is not None
    kept = [row for row in newest if all(HOLDS[sign](row[0], bound) for sign, bound in bounds.items())]
    assert newest[span] == kept


def test_other_conditions_are_not_known() -> None:
    """None: who asks has to look at each row."""
    assert within([(_BEGIN, "a")], time, {"$ne": _BEGIN}) is None
    assert within([(_BEGIN, "a")], time, {"$gte": "yesterday"}) is None


@given(some)
def test_rows_that_are_added_one_by_one_are_in_order(rows: list[Row]) -> None:
    """As sorted; one that is told of twice is known to be there."""
    grown: list[Row] = []
    for row in rows:
        at, again = place_of(grown, row, time, name)
        assert not again
        grown.insert(at, row)
        assert place_of(grown, row, time, name) == (at, True)
    assert grown == ordered(rows)
