"""PerfDB's time and this host's, by one exchange made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from inferbench_tasks.perfdb import moments

MS = 1_000_000
TRUE_NS = 1_750_000_000_123_456_789


@pytest.mark.parametrize("ahead_s", [0.0, 30.0, -21_600.0])
@pytest.mark.parametrize("share_there", [0.0, 0.5, 1.0])
def test_the_truth_lies_within_the_error(
    monkeypatch: pytest.MonkeyPatch, ahead_s: float, share_there: float
) -> None:
    """Whatever this host's clock says and whichever way took the 20 ms; the moment is the server's."""
    trip_ns, passed_ns = 20 * MS, [0]
    monkeypatch.setattr(
        moments,
        "time",
        SimpleNamespace(
            monotonic_ns=lambda: 7 + passed_ns[0],
            time_ns=lambda: TRUE_NS + passed_ns[0] + round(ahead_s * 1e9),
        ),
    )

    def ask() -> int:
        passed_ns[0] += trip_ns
        return (TRUE_NS + round(trip_ns * share_there)) // MS

    moment = moments.moment(ask)
    assert abs(moment.clock.ahead_s - ahead_s) <= moment.clock.error_s + 1e-9
    assert moment.clock.error_s == pytest.approx(0.0105)
    server_s = (moment.at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    assert 0 <= TRUE_NS / 1e9 + 0.02 - server_s <= 0.021


def test_a_clock_that_is_set_during_the_exchange_is_told_as_it_is_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exchange's length is by CLOCK_MONOTONIC: a step makes it neither negative nor half a minute long."""
    clock = SimpleNamespace(ahead_ns=0, passed_ns=0)
    monkeypatch.setattr(
        moments,
        "time",
        SimpleNamespace(
            monotonic_ns=lambda: clock.passed_ns, time_ns=lambda: TRUE_NS + clock.passed_ns + clock.ahead_ns
        ),
    )

    def ask() -> int:
        clock.ahead_ns, clock.passed_ns = -30_000 * MS, 2 * MS
        return (TRUE_NS + MS) // MS

    told = moments.moment(ask).clock
    assert told.error_s == pytest.approx(0.0015)
    assert abs(told.ahead_s + 30) <= told.error_s


@pytest.mark.parametrize("before_wall_ms", [0, 8])
@pytest.mark.parametrize("before_steady_ms", [0, 8])
def test_a_pause_beside_the_reading_is_within_the_error(
    monkeypatch: pytest.MonkeyPatch, before_wall_ms: int, before_steady_ms: int
) -> None:
    """Whoever has the core when a clock is to be read: that time is part of the exchange's."""
    clock = SimpleNamespace(passed_ns=0, asked=False)

    def read(pause_ms: int, from_ns: int) -> int:
        clock.passed_ns += pause_ms * MS if clock.asked else 0
        return from_ns + int(clock.passed_ns)

    monkeypatch.setattr(
        moments,
        "time",
        SimpleNamespace(
            monotonic_ns=lambda: read(before_steady_ms, 7), time_ns=lambda: read(before_wall_ms, TRUE_NS)
        ),
    )

    def ask() -> int:
        clock.passed_ns, clock.asked = 2 * MS, True
        return (TRUE_NS + MS) // MS

    told = moments.moment(ask).clock
    assert (
        abs(told.ahead_s) <= told.error_s == pytest.approx(0.0015 + (before_wall_ms + before_steady_ms) / 2e3)
    )
