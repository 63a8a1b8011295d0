"""How far this host's clock is from PerfDB's, by exchanges with its server, and how far that may be wrong.

All go by PerfDB's clock: ages of heartbeats and leases are taken by it, and runs dated. ``inferbench up`` runs its
server on the leader's host. It tells whole milliseconds, rounded down. An exchange that left at ``sent`` and came back
at ``received`` (this host's clock) with the answer ``server`` proves

    sent - (server + 1 ms)  <=  this clock - PerfDB's  <=  received - server

whatever way took how much of the time. Exchanges begin at various moments within the millisecond, so that all of
them together leave a range little wider than the shortest round trip (Marzullo 1984: the intersection of all ranges).
Its middle is told, and half its width as the error: a bound, no standard deviation.
"""

from __future__ import annotations

import logging
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from inferbench_tasks.perfdb import moments
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.timing.two_clocks import DRIFT

log = logging.getLogger(__name__)

EXCHANGES = 24
#: Between two exchanges, so that they begin at all moments of a millisecond.
LEAST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.003
#: A clock that moved by more against CLOCK_MONOTONIC meanwhile was set.
STEP_NS = 1_000_000
ATTEMPTS = 3
#: More is told beside the host. NTP keeps clocks within milliseconds and steps what is off by a second; one that was
#: set by hand is off by a few. Beyond this nobody sets it, and what the host dates itself (its logs, its tasks' times
#: in Airflow) lies visibly beside what others date.
WARN_APART_S = 5.0
#: More gets no job: five minutes are what Kerberos allows, too. Runs and results have PerfDB's times however far a
#: clock is off; but nothing that the host dates can be laid beside anything else any more, and a clock that nobody
#: keeps goes on to where certificates and signatures (a day, ``signing.LASTS_S``) do not hold.
MOST_APART_S = 300.0
#: How a clock is set right.
REMEDY = (
    "set it (`timedatectl set-ntp true`, or `chronyc makestep` where chrony runs), and keep it set by NTP"
)
_MS_NS = 1_000_000


class ClockOffset(BaseModel):
    """``ahead_s``: this host's clock less PerfDB's, wrong by at most ``error_s``."""

    model_config = ConfigDict(frozen=True)

    ahead_s: float
    error_s: float
    round_trip_s: float
    """The median of the exchanges."""
    exchanges: int


def fault(ahead_s: float, whose: str = "PerfDB's") -> str:
    """ "" for a clock that jobs can be given by, else what is wrong, by how much, and what to do. ``whose``: the clock
    that it was compared with."""
    return _beyond(MOST_APART_S, ahead_s, whose, "are allowed")


def warning(ahead_s: float) -> str:
    """ "" for a clock that somebody keeps set, else by how much it is off, and what to do; the host serves on."""
    return _beyond(WARN_APART_S, ahead_s, "PerfDB's", "are usual at most where NTP keeps it")


def _beyond(bound_s: float, ahead_s: float, whose: str, what: str) -> str:
    if abs(ahead_s) <= bound_s:
        return ""
    way = "ahead of" if ahead_s > 0 else "behind"
    return f"this host's clock is {abs(ahead_s):,.0f} s {way} {whose}, and {bound_s:,.0f} s {what}: {REMEDY}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question for PerfDB's time: when it left and came back by this host's clock, ns; the answer, ms."""

    sent_ns: int
    server_ms: int
    received_ns: int


def measured(db: PerfDB, rng: random.Random | None = None) -> ClockOffset | None:
    """The offset against the clock of PerfDB's primary; None where a clock is set again and again meanwhile."""
    rng = rng or random.Random()
    for _ in range(ATTEMPTS):
        offset = _once(lambda: server_ms(db), rng)
        if offset is not None:
            return offset
    log.warning("the clock's offset can't be told: this host's clock or PerfDB's is being set")
    return None


def server_ms(db: PerfDB) -> int:
    """The time of PerfDB's primary, ms since 1970, rounded down."""
    return db.retrying(lambda: moments.server_ms(db.collection("hosts").database), "asking for the time")


def _once(ask: Callable[[], int], rng: random.Random) -> ClockOffset | None:
    # Both ends of an exchange are read from CLOCK_MONOTONIC: a clock that is set in between would falsify its length.
    base = epoch_offset()
    base_ns = base["offset_ns"]
    exchanges = []
    for _ in range(EXCHANGES):
        sent_ns = time.monotonic_ns() + base_ns
        answer_ms = ask()
        exchanges.append(Exchange(sent_ns, answer_ms, time.monotonic_ns() + base_ns))
        time.sleep(rng.uniform(LEAST_PAUSE_S, LONGEST_PAUSE_S))
    end = epoch_offset()
    moved_ns = abs(end["offset_ns"] - base_ns)
    offset = offset_of(exchanges)
    if moved_ns > STEP_NS or offset is None:
        return None
    # The exchanges bound the offset of CLOCK_MONOTONIC and the base; how far those are from this host's clock is more.
    more_s = (base["error_ns"] + end["error_ns"] + moved_ns) / 1e9
    return offset.model_copy(update={"error_s": offset.error_s + more_s})


def offset_of(exchanges: Sequence[Exchange]) -> ClockOffset | None:
    """What all exchanges allow, at the time of the last; None where they contradict each other: a clock was set."""
    end_ns = exchanges[-1].received_ns
    low_ns = max(e.sent_ns - (e.server_ms + 1) * _MS_NS - _drift_ns(e, end_ns) for e in exchanges)
    high_ns = min(e.received_ns - e.server_ms * _MS_NS + _drift_ns(e, end_ns) for e in exchanges)
    if low_ns > high_ns:
        return None
    return ClockOffset(
        ahead_s=(low_ns + high_ns) / 2 / 1e9,
        error_s=(high_ns - low_ns) / 2 / 1e9,
        round_trip_s=statistics.median(e.received_ns - e.sent_ns for e in exchanges) / 1e9,
        exchanges=len(exchanges),
    )


def _drift_ns(exchange: Exchange, end_ns: int) -> int:
    return round(DRIFT * (end_ns - exchange.sent_ns))
