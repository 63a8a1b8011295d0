"""At which prices the costs of held results are.

They are not held, for MongoDB has no room for one more index: they are asked of PerfDB, once for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from inferbench_tasks.analysis.price_ground import DATE_PATH, RATE_PATHS, priced_at, rate
from inferbench_tasks.perfdb.held import Held, Row, identity
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

#: The prices of so many results are kept.
_MOST = 200_000


class Price(NamedTuple):
    """``rate``: which instance's, and how much; ``date``: of the price list. None without a cost, or where nobody kept
    it."""

    rate: tuple[Any, ...] | None
    date: str | None


_UNKNOWN = Price(None, None)


def prices(db: PerfDB, index: Held, rows: Iterable[Row]) -> Callable[[Row], Price]:
    """How to tell the price of each of these results; what was read once is known."""
    known: dict[tuple[str, int], Price] = index.kept("prices", _MOST)
    if missing := [each[0] for each in map(identity, rows) if each not in known]:
        paths = ("run_id", "attempt", *(f"summary.{path}" for path in (*RATE_PATHS, DATE_PATH)))
        same: dict[Price, Price] = {}  # few prices are those of a hundred thousand results
        for document in map(to_plain, db.find_raw({"run_id": {"$in": missing}}, BY_RUN, fields=paths)):
            summary = document.get("summary") or {}
            price = Price(rate(summary), priced_at(summary))
            known[document["run_id"], document["attempt"]] = same.setdefault(price, price)
    return lambda row: known.get(identity(row), _UNKNOWN)
