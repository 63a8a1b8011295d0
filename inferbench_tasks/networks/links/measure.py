"""A link as it is now: round trips and clocks by the same questions, then a stream each way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from inferbench_tasks.contracts.link import LinkClock, LinkEnd, MeasuredLink, RoundTrips
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.timing.two_clocks import Exchange, bounds_at

#: Enough for a p99 (``contracts.link.LEAST``), where the link is fast enough for that many.
MOST_QUESTIONS = 700
#: A link of 300 ms still tells a median within it.
QUESTIONS_S = 5.0
STREAM_S = 1.0
#: All of it, where nothing is lost: a slow link uses up the time of its questions.
MOST_S = QUESTIONS_S + 2 * STREAM_S
#: The first questions find caches cold and cores asleep.
_UNCOUNTED = 5
#: A clock that moved by more against CLOCK_MONOTONIC meanwhile was set (as ``cluster.clock`` has it).
_STEP_NS = 1_000_000
SET_MEANWHILE = "one of the two clocks was set while they were compared"
CONTRADICT = "the two clocks moved apart by more than 1,000 ppm while they were compared"


@dataclass(frozen=True)
class Measurement:
    """``link`` is what was measured; ``exchanges`` what its times are made of."""

    link: MeasuredLink
    exchanges: tuple[Exchange, ...]


def measure(near: NearSide, me: LinkEnd, *, streams: bool = True) -> Measurement:
    """``me``: this host, whose address is that of the connection. Raises LoadError where the link is lost."""
    near.exchanges(_UNCOUNTED, QUESTIONS_S)
    before = epoch_offset(), near.epoch()
    exchanges = near.exchanges(MOST_QUESTIONS, QUESTIONS_S)
    after = epoch_offset(), near.epoch()
    link = MeasuredLink(
        near=me.model_copy(update={"address": near.own_address}),
        far=near.far,
        measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        round_trip=RoundTrips.of([exchange.round_trip_ns for exchange in exchanges]),
        up_mbit_s=near.up_mbit_s(STREAM_S) if streams else None,
        down_mbit_s=near.down_mbit_s(STREAM_S) if streams else None,
        clock=clock_of(exchanges, before, after),
    )
    return Measurement(link, tuple(exchanges))


def clock_of(
    exchanges: Sequence[Exchange],
    before: tuple[dict[str, int], dict[str, int]],
    after: tuple[dict[str, int], dict[str, int]],
) -> LinkClock:
    """How far the far host's Unix time is ahead. ``before``, ``after``: what CLOCK_MONOTONIC lacks, here and there.

    CLOCK_MONOTONIC is compared, which nobody sets; a clock that was set in between would make a range of two moments.
    """
    bounds = bounds_at(exchanges, exchanges[-1].received_ns)
    moved_ns = [
        abs(last["offset_ns"] - first["offset_ns"]) for first, last in zip(before, after, strict=True)
    ]
    if bounds is None or max(moved_ns) > _STEP_NS:
        return LinkClock(ahead_s=None, error_s=None, reason=CONTRADICT if bounds is None else SET_MEANWHILE)
    (here, there), errors_ns = after, sum(epoch["error_ns"] for epoch in (*before, *after))
    return LinkClock(
        ahead_s=(bounds.middle_ns + there["offset_ns"] - here["offset_ns"]) / 1e9,
        error_s=(bounds.error_ns + errors_ns + sum(moved_ns)) / 1e9,
    )
