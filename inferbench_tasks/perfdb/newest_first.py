"""Rows in the order of time, the newest first: a place in it is found in a few steps, whatever their number."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

R = TypeVar("R")
#: Sign -> what holds of the rows in front of the place that it means, and whether these are left out.
_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], bool]] = {
    "$lte": (operator.gt, True),
    "$lt": (operator.ge, True),
    "$gte": (operator.ge, False),
    "$gt": (operator.gt, False),
}


def within(rows: list[R], time: Callable[[R], datetime], condition: Mapping[str, Any]) -> slice | None:
    """Which of the rows lie within bounds (``{"$gte": moment}``); None of a condition that is another."""
    start, end = 0, len(rows)
    for sign, bound in condition.items():
        if sign not in _BOUNDS or not isinstance(bound, datetime):
            return None
        in_front, left_out = _BOUNDS[sign]
        at = bisect_left(rows, True, key=_not(in_front, time, bound))
        start, end = (max(start, at), end) if left_out else (start, min(end, at))
    return slice(start, max(start, end))


def place_of(
    rows: list[R], row: R, time: Callable[[R], datetime], name: Callable[[R], Any]
) -> tuple[int, bool]:
    """Where a row stands among others, and whether one of its name and time stands there already.

    Rows of one time are ordered by name.
    """
    place, own = time(row), name(row)
    at = bisect_left(
        rows, True, key=lambda each: time(each) < place or (time(each) == place and name(each) >= own)
    )
    return at, at < len(rows) and name(rows[at]) == own


def _not(
    in_front: Callable[[Any, Any], bool], time: Callable[[R], datetime], bound: datetime
) -> Callable[[R], bool]:
    return lambda row: not in_front(time(row), bound)
