"""Results in the order of a field, a page at a time: those without it last, equal ones the newest first.

No index has the newest first among equal figures, and there is no room for so many more (``indexes``). So the field's
own index tells which values a page has, and only the results between its first and its last value are put in order. A
value that goes on before or behind the page has a list of its own, the newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from inferbench_tasks.dotted import value_at
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.store import BY_RUN, NEWEST_FIRST, PerfDB

T = TypeVar("T")
Filter = dict[str, Any]
Order = Sequence[tuple[str, int]]
#: What reads results: of a filter, in an order, at most so many (0: all), so many left out.
Find = Callable[[Filter, Order, int, int], list[T]]
#: A list that others follow: what reads a page of it (so many left out, at most so many), and how many it has.
Part = tuple[Callable[[int, int], list[T]], Callable[[], int]]


def parts(db: PerfDB, find: Find[T], filter: Filter, order: Order) -> list[Part[T]]:
    """The results that have what they are ordered by first, in that order; then the others, the newest first."""
    path = order[0][0]
    measured: Filter = {"$and": [filter, {path: {"$ne": None}}]}
    others: Filter = {"$and": [filter, {path: None}]}
    return [
        (
            lambda skip, count: ordered(db, find, measured, order, count, skip),
            lambda: db.count_results(measured),
        ),
        (lambda skip, count: find(others, NEWEST_FIRST, count, skip), lambda: db.count_results(others)),
    ]


def page(of: Sequence[Part[T]], limit: int, offset: int) -> list[T]:
    """So many of several lists that follow each other, all with ``limit`` 0; ``offset`` are left out."""
    rows: list[T] = []
    for read, size in of:
        found = read(offset, limit - len(rows) if limit else 0)
        rows += found
        if limit and len(rows) == limit:
            break
        offset = 0 if found or not offset else max(0, offset - size())
    return rows


def ordered(db: PerfDB, find: Find[T], filter: Filter, order: Order, limit: int, offset: int) -> list[T]:
    """A page of results that all have what they are ordered by. Of all at once equal ones come in any order."""
    if not limit:
        return find(filter, order, 0, offset)
    whole = (*order, *((path, sign) for path, sign in (*NEWEST_FIRST, *BY_RUN) if path not in dict(order)))
    path, sign = order[0]
    if path not in {each.path for each in fields.all_fields()}:
        # Below an open field texts and numbers may stand: no range has both.
        return find(filter, whole, limit, offset)
    told = [value_at(raw, path) for raw in db.find_raw(filter, order[:1], limit + 1, offset, fields=[path])]
    values, ends_tied = told[:limit], len(told) > limit and told[-1] == told[limit - 1]
    if not values:
        return []
    after, before = ("$gt", "$lt") if sign > 0 else ("$lt", "$gt")
    first, last = values[0], values[-1]
    earlier = db.count_results({"$and": [filter, {path: {before: first}}]}) if offset else 0
    skip = max(0, offset - earlier)
    if (not skip and not ends_tied) or len(
        order
    ) > 1:  # all of the range is on the page, or equal ones are in order
        return find({"$and": [filter, {path: {f"{after}e": first, f"{before}e": last}}]}, whole, limit, skip)
    # Of a value that nearly all have, what is the newest is told by the lists' own index.
    rows = find({"$and": [filter, {path: first}]}, NEWEST_FIRST, limit, skip)
    if last != first:
        within = {"$and": [filter, {path: {after: first, before: last}}]}
        rows += find(within, whole, limit - len(rows), 0) if len(rows) < limit else []
        rows += (
            find({"$and": [filter, {path: last}]}, NEWEST_FIRST, limit - len(rows), 0)
            if len(rows) < limit
            else []
        )
    return rows
