"""A stored table of spans as arrays, a place for each span: what pictures and sums of many spans are made of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from inferbench_tasks.tracing.spans import PART

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """``trace``, ``level``, ``name``, ``type``: places in the lists of the same name in the plural.

    ``parts``: which part of its load each of ``traces`` says that it is (``spans.PART``), "" of one that says none.
    ``parent``: the row of the span that it lies in, -1 of one that lies in none. ``start_ns``: Unix time.
    """

    traces: list[str]
    parts: list[str]
    levels: list[str]
    names: list[str]
    types: list[str]
    trace: Ints
    number: Ints
    parent: Ints
    level: Ints
    name: Ints
    type: Ints
    start_ns: Ints
    duration_ns: Ints

    def __len__(self) -> int:
        return len(self.trace)

    def within(self, shown: Collection[str] | None) -> tuple[NDArray[np.bool_], Ints]:
        """Which spans are of these levels (None: all), and in which row each lies then: what is not shown between a
        span and its next one above is passed over.
        """
        if shown is None:
            return np.ones(len(self), dtype=bool), self.parent
        kept = np.array([level in shown for level in self.levels], dtype=bool)[self.level]
        # Each row's next one that is kept, itself included; twice as far in each step. The last place is no row.
        rows = np.arange(len(self) + 1)
        jump = np.where(np.append(kept, True), rows, np.append(self.parent, len(self)))
        jump[jump < 0] = len(self)
        while not np.array_equal(further := jump[jump], jump):
            jump = further
        above = jump[np.where(self.parent < 0, len(self), self.parent)]
        return kept, np.where(above == len(self), -1, above)


def columns_of(table: pa.Table) -> Columns:
    """The columns of a stored table."""
    trace, traces = _coded(table["trace_id"])
    level, levels = _coded(table["level"])
    name, names = _coded(table["name"])
    type_, types = _coded(table["type"])
    number, parent = _plain(table["number"]), _plain(table["parent"])
    return Columns(
        traces, _parts(table, traces), levels, names, types,
        trace, number, _rows_of(trace, number, parent), level, name, type_, _plain(table["start_ns"]),
        _plain(table["duration_ns"]),
    )  # fmt: skip


def attribute_of_requests(table: pa.Table, name: str) -> dict[str, str]:
    """What the requests of a stored table say of themselves under that name, by trace; "" of one that says none."""
    roots = table.select(["trace_id", "parent", "level", "attributes"]).filter(pc.less(table["parent"], 0))
    roots = roots.filter(pc.equal(roots["level"].cast(pa.string()), "application"))
    texts = roots["attributes"].cast(pa.string()).to_pylist()
    told = (str(orjson.loads(text).get(name, "")) if text else "" for text in texts)
    return dict(zip(roots["trace_id"].cast(pa.string()).to_pylist(), told, strict=True))


def depths(parent: Ints) -> Ints:
    """How many spans lie around each, by the rows of the next ones; twice as far up in each step."""
    last = len(parent)
    up = np.append(np.where(parent < 0, last, parent), last)
    depth = np.append((parent >= 0).astype(np.int64), 0)
    while (up != last).any():
        depth = depth + depth[up]
        up = up[up]
    return depth[:-1]


def _parts(table: pa.Table, traces: list[str]) -> list[str]:
    told = attribute_of_requests(table, PART)
    return [told.get(trace, "") for trace in traces]


def _rows_of(trace: Ints, number: Ints, parent: Ints) -> Ints:
    """The rows of spans that are named by their number within a trace; -1 of none."""
    if not len(trace):
        return parent
    each = int(number.max()) + 1
    keys = trace * each + number
    order = np.argsort(keys, kind="stable")
    wanted = trace * each + parent
    found = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    there = (parent >= 0) & (keys[order][found] == wanted)
    return np.where(there, order[found], -1)


def _coded(column: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(coded.indices.to_numpy(), dtype=np.int64), coded.dictionary.to_pylist()


def _plain(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), dtype=np.int64)
