"""What can be asked for among the valid results that match: the figures with values, their ranges, and the loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_not

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.held import Held, Row, held, identity
from inferbench_tasks.perfdb.indexes import held_paths
from inferbench_tasks.perfdb.offered import WITHOUT_LOAD, named
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: The loads that are named: those of most results.
MOST_LOADS = 200
#: Figures are offered that any of so many newest results has: of those that are held, and of those that are read.
_HELD_ROWS, _READ = 5_000, 500


@dataclass(frozen=True)
class Available:
    """``figures``: those by which runs can be ranked or bounded and that newest results have, in the table's order;
    ``loads``: in the words of ``perfdb.offered``, that of most results first.
    """

    figures: tuple[Figure, ...]
    loads: tuple[str, ...]


def available(db: PerfDB, query: str | Iterable[str] = "", load: str | None = None) -> Available:
    """Of the valid results that match ``query``; the figures of those under ``load`` alone, where one is named.

    Raises InputError for a query that is none.
    """
    index = held(db)
    rows = index.rows(parse(query).filter)
    counts = Counter(rows.offered())
    loads = [each for each, _ in counts.most_common() if each != WITHOUT_LOAD]
    if load:
        rows = rows.offered_any(named(load))
    offered = FIGURES.offered(streamed=True)
    there = _held(index, rows[:_HELD_ROWS], offered) | _read(db, rows[:_READ], offered)
    figures = tuple(figure for figure in offered if figure.name in there)
    return Available(figures, tuple(loads[:MOST_LOADS]))


def _held(index: Held, rows: Sequence[Row], figures: Sequence[Figure]) -> set[str]:
    getters = {f.name: index.values(f.field_path) for f in figures if f.field_path in held_paths()}
    # In C: most figures of a machine without them are in none of the rows.
    return {name for name, of in getters.items() if any(map(is_not, map(of, rows), repeat(None)))}


def _read(db: PerfDB, rows: Sequence[Row], figures: Sequence[Figure]) -> set[str]:
    """Of the figures that are not held: each of them asked of all results would be a search of its own."""
    paths = {f.name: f.field_path for f in figures if f.field_path not in held_paths()}
    if not paths or not rows:
        return set()
    where = {"run_id": {"$in": [identity(row)[0] for row in rows]}, "verdict": "valid"}
    found = [to_plain(d) for d in db.find_raw(where, BY_RUN, fields=list(paths.values()))]
    return {name for name, path in paths.items() if any(value_at(d, path) is not None for d in found)}


def value_range(
    db: PerfDB, figure: Figure, query: str | Iterable[str] = "", load: str | None = None
) -> tuple[float, float] | None:
    """The lowest and the highest value that valid results have which match; None where none has the figure.

    Raises InputError for a query that is none.
    """
    index = held(db)
    rows = index.rows(parse(query).filter)
    rows = rows.only(index.present(figure.field_path, rows))
    if load:
        rows = rows.offered_any(named(load))
    values = list(map(index.values(figure.field_path), rows))
    return (min(values), max(values)) if values else None
