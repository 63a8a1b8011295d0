"""What can be asked for among the valid results that match: the figures with values, their ranges, and the loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from operator import is_not

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.held import held, load_of
from inferbench_tasks.perfdb.offered import WITHOUT_LOAD
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

#: The loads that are named: those of most results.
MOST_LOADS = 200


@dataclass(frozen=True)
class Offers:
    """``figures``: those by which runs can be ranked or bounded and that any result has, in the table's order;
    ``loads``: in the words of ``perfdb.offered``, that of most results first.
    """

    figures: tuple[Figure, ...]
    loads: tuple[str, ...]


def offers(db: PerfDB, query: str | Iterable[str] = "", load: str | None = None) -> Offers:
    """Of the valid results that match ``query``; the figures of those under ``load`` alone, where one is named.

    Raises InputError for a query that is none.
    """
    index = held(db)
    rows = index.rows(parse(query).filter)
    counts = Counter(map(load_of, rows))
    loads = [each for each, _ in counts.most_common() if each != WITHOUT_LOAD]
    if load:
        rows = [row for row in rows if load_of(row) == load]
    figures = tuple(
        figure
        for figure in FIGURES.offered(streamed=True)
        # In C: there may be a hundred thousand rows, and most figures of a machine without them are in none.
        if any(map(is_not, map(index.values(figure.field_path), rows), repeat(None)))
    )
    return Offers(figures, tuple(loads[:MOST_LOADS]))


def span(
    db: PerfDB, figure: Figure, query: str | Iterable[str] = "", load: str | None = None
) -> tuple[float, float] | None:
    """The lowest and the highest value that valid results have which match; None where none has the figure.

    Raises InputError for a query that is none.
    """
    index = held(db)
    value = index.values(figure.field_path)
    rows = index.rows(parse(query).filter)
    values = [v for row in rows if load in (None, "", load_of(row)) and (v := value(row)) is not None]
    return (min(values), max(values)) if values else None
