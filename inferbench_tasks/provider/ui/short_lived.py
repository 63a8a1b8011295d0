"""What pages ask PerfDB for each time that they are shown, kept for half a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from inferbench_tasks.perfdb.store import PerfDB

AGE_S = 30.0
T = TypeVar("T")


def short_lived(ask: Callable[[PerfDB], T]) -> Callable[[PerfDB], T]:
    """The same function with answers that are at most ``AGE_S`` old; an empty one is asked for again."""
    kept: dict[str, tuple[float, T]] = {}

    @wraps(ask)
    def answer(db: PerfDB) -> T:
        at, value = kept.get(db.uri, (0.0, None))
        if not value or time.monotonic() - at > AGE_S:
            value = ask(db)
            kept[db.uri] = (time.monotonic(), value)
        return value

    return answer
