"""Patterns of a query as the values that they mean: of these an index has the results together, newest first.

For a pattern that few results fulfil, or none, MongoDB would look at all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inferbench_tasks.perfdb.indexes import LEADING
from inferbench_tasks.perfdb.store import PerfDB

#: From so many values on MongoDB does not read each by itself: then the pattern stays.
_MOST = 150


def resolved(db: PerfDB, filter: Mapping[str, Any]) -> dict[str, Any]:
    """A filter that ``queries.parse`` made, for results alone: it means the same ones."""
    if "$and" in filter:
        return {"$and": [resolved(db, part) for part in filter["$and"]]}
    return {path: _resolved(db, path, condition) for path, condition in filter.items()}


def _resolved(db: PerfDB, path: str, condition: Any) -> Any:
    bounds: list[Any] = []
    # Each begins an index: MongoDB steps from one different value to the next.
    if isinstance(condition, Mapping) and path in LEADING:
        bounds = condition.get("$in") or []
    patterns = [bound for bound in bounds if isinstance(bound, re.Pattern)]
    if not patterns:
        return condition

    def there() -> list[Any]:
        return list(db.collection("results").distinct(path))

    values = [bound for bound in bounds if not isinstance(bound, re.Pattern)]
    values += [
        value
        for value in db.retrying(there, "asking what there is")
        if isinstance(value, str) and any(pattern.search(value) for pattern in patterns)
    ]
    return condition if len(values) > _MOST else {**condition, "$in": values}
