"""What time it is by PerfDB's clock, which all moments of runs and results are of.

Stages of one run may run on several hosts, whose clocks lie apart and may be set at any time. So the server is asked
for each moment, and how far this host's clock was ahead of it is kept beside it: what else the host dated (its logs,
its events) is put right by that. How long a stage took is no difference of such moments: it is by CLOCK_MONOTONIC.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.database import Database

from inferbench_tasks.perfdb.documents import HostClock

_MS_NS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """``at``: by PerfDB's clock, to the millisecond, rounded down. ``clock``: this host's as the server answered."""

    at: datetime
    clock: HostClock


def server_ms(database: Database[dict[str, Any]]) -> int:
    """The time of PerfDB's primary, ms since 1970, rounded down."""
    told: datetime = database.command("hello")["localTime"]
    return round((told.replace(tzinfo=UTC) - _EPOCH).total_seconds() * 1000)


def moment(ask: Callable[[], int], asked_ns: int | None = None) -> Moment:
    """By one exchange. ``ask``: gives the server's time, ms. ``asked_ns``: the moment that is meant, by
    CLOCK_MONOTONIC, where the exchange could not begin at once; what went by until it did is taken off the answer.

    The answer was true at some time of the exchange, whose length CLOCK_MONOTONIC tells: a clock that is set meanwhile
    would falsify it. This host's clock is read within that time, so that a pause beside the reading is part of it.
    """
    began_ns = time.monotonic_ns()
    answer_ms = ask()
    read_ns = time.time_ns()
    trip_ns = time.monotonic_ns() - began_ns
    here_ns = read_ns - trip_ns // 2
    waited_ms = 0 if asked_ns is None else (began_ns - asked_ns) // _MS_NS
    return Moment(
        at=_EPOCH + timedelta(milliseconds=answer_ms - waited_ms),
        clock=HostClock(
            ahead_s=(here_ns - answer_ms * _MS_NS - _MS_NS // 2) / 1e9, error_s=(trip_ns + _MS_NS) / 2e9
        ),
    )
