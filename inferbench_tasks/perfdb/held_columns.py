"""The held rows with arrays beside them: what is asked of all of them is asked of arrays.

Python takes tens of milliseconds to look at a hundred thousand rows, an array a fraction of one. Each array is made
when it is first asked for, and grows with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_not, itemgetter
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

#: A valid result: the values of ``held_paths``; behind them the load that it was offered and its configuration's key.
Row = tuple[Any, ...]
LOAD, CONFIGURATION = -2, -1
Places = NDArray[np.intp]
Mask = NDArray[np.bool_]
#: Of fields with no more different values than this share of the rows, and some, the places of the values are kept.
_FEW_RATIO, _FEW = 0.2, 1000
_MOST_IN_TABLE = 2_000_000


@dataclass(frozen=True)
class Coded:
    """A field's different ``values``, and of each row the place of its own among them.

    Equal values of unlike types (1 and 1.0) are one. ``place_of``: the other way round.
    """

    values: list[Any]
    place_of: dict[Any, int]
    of: NDArray[np.int32]

    @classmethod
    def read(cls, column: Iterable[Any], count: int) -> Coded:
        """TypeError for values that no mapping takes as keys."""
        place_of: dict[Any, int] = {}
        codes = (place_of.setdefault(value, len(place_of)) for value in column)
        of = np.fromiter(codes, np.int32, count)
        return cls(list(place_of), place_of, of)

    def with_value(self, value: Any, at: int) -> Coded:
        """One more row, at that place."""
        place = self.place_of.get(value)
        if place is not None:
            return Coded(self.values, self.place_of, np.insert(self.of, at, place))
        # Others: somebody may look at the old ones.
        values = [*self.values, value]
        return Coded(
            values, {**self.place_of, value: len(values) - 1}, np.insert(self.of, at, len(values) - 1)
        )


class Columns:
    """``rows``, which stay as they are, and their arrays. Safe in several threads: who comes second makes one anew."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self._coded: dict[int, Coded] = {}
        self._unlike: set[int] = set()
        self._present: dict[int, Mask] = {}

    def coded(self, at: int) -> Coded:
        """Of the field that stands there in a row."""
        if at not in self._coded:
            self._coded[at] = Coded.read(map(itemgetter(at), self.rows), len(self.rows))
        return self._coded[at]

    def coded_of_few(self, at: int) -> Coded | None:
        """The same of a field with few different values; None of others: as many values as rows would be kept."""
        if at not in self._coded and at not in self._unlike:
            try:
                coded = Coded.read(map(itemgetter(at), self.rows), len(self.rows))
            except TypeError:  # what no mapping takes as a key
                coded = None
            if coded is None or len(coded.values) > _FEW_RATIO * len(self.rows) + _FEW:
                self._unlike.add(at)
            else:
                self._coded[at] = coded
        return self._coded.get(at)

    def present(self, at: int) -> Mask:
        """Which rows have a value there."""
        if at not in self._present:
            there = map(is_not, map(itemgetter(at), self.rows), repeat(None))
            self._present[at] = np.fromiter(there, np.bool_, len(self.rows))
        return self._present[at]

    def with_row(self, row: Row, at: int, *, again: bool) -> Columns:
        """These and one more at that place; in place of the one that stands there, if it is there ``again``."""
        grown = Columns([*self.rows[:at], row, *self.rows[at + again :]])
        grown._unlike = self._unlike
        coded, present = self._coded.copy(), self._present.copy()
        if again:
            old = self.rows[at]
            grown._coded = {of: each for of, each in coded.items() if old[of] == row[of]}
            grown._present = {
                of: each for of, each in present.items() if (old[of] is None) == (row[of] is None)
            }
        else:
            grown._coded = {of: each.with_value(row[of], at) for of, each in coded.items()}
            grown._present = {of: np.insert(each, at, row[of] is not None) for of, each in present.items()}
        return grown

    def without(self, at: int) -> Columns:
        """These but for the one at that place."""
        left = Columns([*self.rows[:at], *self.rows[at + 1 :]])
        left._unlike = self._unlike
        left._coded = {
            of: Coded(each.values, each.place_of, np.delete(each.of, at))
            for of, each in self._coded.copy().items()
        }
        left._present = {of: np.delete(each, at) for of, each in self._present.copy().items()}
        return left


class Matching(Sequence[Row]):
    """Some of the held rows in their order, the newest first. ``places``: where they stand, None of all."""

    def __init__(self, columns: Columns, at: Mapping[str, int], places: Places | None = None) -> None:
        self.columns = columns
        self._at = at
        self._places = places

    def __len__(self) -> int:
        return len(self.columns.rows) if self._places is None else len(self._places)

    def __iter__(self) -> Iterator[Row]:
        rows = self.columns.rows
        return iter(rows) if self._places is None else map(rows.__getitem__, self._places.tolist())

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        rows = self.columns.rows
        if self._places is None:
            return rows[place]
        if isinstance(place, slice):
            return [rows[each] for each in self._places[place].tolist()]
        return rows[int(self._places[place])]

    @property
    def places(self) -> Places:
        """Where each stands among all that are held."""
        return np.arange(len(self.columns.rows)) if self._places is None else self._places

    def only(self, mask: Mask) -> Matching:
        """Those of them that it says."""
        places = np.flatnonzero(mask) if self._places is None else self._places[mask]
        return Matching(self.columns, self._at, places)

    def within(self, span: slice) -> Matching:
        """Those that stand there among all that are held."""
        if self._places is None:
            return Matching(self.columns, self._at, np.arange(span.start, span.stop))
        return self.only((self._places >= span.start) & (self._places < span.stop))

    def judged(self, at: int, judge: Callable[[Any], bool]) -> Mask:
        """Which have a value there that passes: each of the different ones is judged once."""
        coded = self.columns.coded_of_few(at)
        if coded is None or len(coded.values) > len(self):
            return np.fromiter(map(judge, map(itemgetter(at), self)), np.bool_, len(self))
        of_each: Mask = np.fromiter(map(judge, coded.values), np.bool_, len(coded.values))
        passing: Mask = of_each[self._those(coded.of)]
        return passing

    def passing(self, judge: Callable[[Row], bool]) -> Mask:
        """Which of them pass, each judged by itself."""
        return np.fromiter(map(judge, self), np.bool_, len(self))

    def present(self, path: str, value: Callable[[Row], Any]) -> Mask:
        """Which have a value at a path; ``value`` gets one that is not held."""
        if path in self._at:
            return self._those(self.columns.present(self._at[path]))
        return np.fromiter((value(row) is not None for row in self), np.bool_, len(self))

    def offered(self) -> dict[str, int]:
        """The loads that they were offered, that of the newest first, and how many were."""
        return self._counts(LOAD)

    def offered_with(self, *paths: str) -> tuple[list[tuple[Any, ...]], NDArray[np.int64]]:
        """The different combinations of load and values at held paths; and of each row the place of its own."""
        coded = [self.columns.coded(at) for at in (LOAD, *(self._at[path] for path in paths))]
        number = np.zeros(len(self), dtype=np.int64)
        several: list[tuple[Any, ...]] = [()]
        for each in coded:
            # Only those that are there: all that could be are too many to count.
            place, number = _told_apart(number * len(each.values) + self._those(each.of))
            several = [
                (*several[at // len(each.values)], each.values[at % len(each.values)])
                for at in place.tolist()
            ]
        return several, number

    def configurations_of(self, group: NDArray[np.int64], groups: int) -> list[int]:
        """``group``: of each row. How many configurations each group has."""
        coded = self.columns.coded(CONFIGURATION)
        several = max(1, len(coded.values))
        pairs, _ = _told_apart(group * several + self._those(coded.of))
        return [int(count) for count in np.bincount(pairs // several, minlength=groups)]

    def offered_any(self, judge: Callable[[str], bool]) -> Matching:
        """Those whose load passes."""
        return self.only(self.judged(LOAD, judge))

    def newest_of_each(self) -> list[Row]:
        """Of each configuration the newest, in their order."""
        coded = self.columns.coded(CONFIGURATION)
        places = self.places
        first = np.full(len(coded.values), len(self.columns.rows))
        first[self._those(coded.of)[::-1]] = places[::-1]  # what is written last stays: the newest
        first.sort()
        rows = self.columns.rows
        return [rows[at] for at in first[: np.searchsorted(first, len(rows))].tolist()]

    def _counts(self, at: int) -> dict[Any, int]:
        coded = self.columns.coded(at)
        of = self._those(coded.of)
        numbers = np.bincount(of, minlength=len(coded.values))
        first = np.full(len(coded.values), len(of))
        first[of[::-1]] = np.arange(len(of))[::-1]
        there = [each for each in np.argsort(first, kind="stable").tolist() if numbers[each]]
        return {coded.values[each]: int(numbers[each]) for each in there}

    def _those(self, array: NDArray[Any]) -> NDArray[Any]:
        return array if self._places is None else array[self._places]


def _told_apart(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different ones, and of each its place among them; by a table where that is not too long, else sorted."""
    if not len(numbers) or (most := int(numbers.max())) > _MOST_IN_TABLE:
        return np.unique(numbers, return_inverse=True)
    there = np.zeros(most + 1, dtype=np.bool_)
    there[numbers] = True
    place = np.flatnonzero(there)
    table = np.empty(most + 1, dtype=np.int64)
    table[place] = np.arange(len(place))
    return place, table[numbers]
