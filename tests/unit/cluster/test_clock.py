"""The offset between two clocks, from exchanges made by hand."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from inferbench_tasks.cluster import clock
from inferbench_tasks.cluster.clock import ClockOffset, Exchange, offset_of

MS = 1_000_000


def exchange(true_ahead_ns: int, sent_ns: int, there_ns: int, back_ns: int) -> Exchange:
    """One with a server whose clock is behind by ``true_ahead_ns`` and tells whole milliseconds."""
    answered_ns = sent_ns + there_ns - true_ahead_ns
    return Exchange(sent_ns, answered_ns // MS, sent_ns + there_ns + back_ns)


def test_one_exchange_by_hand() -> None:
    """Left at 10.2 ms, back at 11.0 ms, the answer 7 (so 7 to 8): ahead by 2.2 to 4.0 ms, which is 3.1 ± 0.9."""
    offset = offset_of([Exchange(10_200_000, 7, 11_000_000)])
    assert offset is not None
    # The bound for drift is 0.1% of the 0.8 ms that the exchange took.
    assert offset.ahead_s == pytest.approx(3.1e-3, abs=1e-12)
    assert offset.error_s == pytest.approx(0.9e-3 + 0.8e-6, abs=1e-12)
    assert offset.round_trip_s == pytest.approx(0.8e-3) and offset.exchanges == 1


@pytest.mark.parametrize("true_ahead_ns", [0, 30_000_000_000, -123_456_789])
@pytest.mark.parametrize("share_there", [0.0, 0.5, 1.0])
def test_the_truth_lies_within_the_error(true_ahead_ns: int, share_there: float) -> None:
    """Whatever the offset, and whichever way takes the time; below a millisecond though the answers are coarse."""
    rng = random.Random(7)
    for _ in range(200):
        at_ns, exchanges = 1_700_000_000_000_000_000, []
        for _ in range(24):
            at_ns += rng.randrange(1 * MS, 3 * MS)
            trip_ns = rng.randrange(200_000, 900_000)
            there_ns = int(trip_ns * share_there)
            exchanges.append(exchange(true_ahead_ns, at_ns, there_ns, trip_ns - there_ns))
            at_ns += trip_ns
        offset = offset_of(exchanges)
        assert offset is not None
        assert abs(offset.ahead_s - true_ahead_ns / 1e9) <= offset.error_s + 1e-9
        assert offset.error_s < 0.6e-3


def test_a_clock_that_is_set_meanwhile_has_no_offset() -> None:
    """No offset is in the ranges of both: nothing is told, rather than a mean of two clocks."""
    before = exchange(0, 1_000 * MS, 100_000, 100_000)
    after = exchange(30_000 * MS, 1_005 * MS, 100_000, 100_000)
    assert offset_of([before, after]) is None


def test_drift_within_its_bound_is_covered() -> None:
    """Clocks that drift apart by 900 ppm over half a second: the offset at the end is within the error."""
    exchanges, at_ns = [], 10_000 * MS
    for number in range(24):
        exchanges.append(exchange(round(0.0009 * (at_ns - 10_000 * MS)), at_ns, 50_000, 50_000))
        at_ns += 20 * MS + 37_000 * number
    end_ns = exchanges[-1].received_ns
    offset = offset_of(exchanges)
    assert offset is not None
    assert abs(offset.ahead_s - 0.0009 * (end_ns - 10_000 * MS) / 1e9) <= offset.error_s


@pytest.mark.parametrize(("moved_ns", "errors_ns"), [(0, 0), (900_000, 0), (-900_000, 40_000), (0, 250_000)])
def test_what_the_hosts_own_clock_did_is_in_the_error(
    monkeypatch: pytest.MonkeyPatch, moved_ns: int, errors_ns: int
) -> None:
    """A step of 0.9 ms meanwhile and the errors at both ends come on top of the exchanges'; 1.1 ms are too much."""

    def told(moved: int, error: int) -> ClockOffset | None:
        now_ns = [5_000 * MS]
        base_ns = 1_700_000_000_000 * MS

        def monotonic_ns() -> int:
            now_ns[0] += 150_000
            return now_ns[0]

        def sleep(seconds: float) -> None:
            now_ns[0] += round(seconds * 1e9)

        offsets = iter([(base_ns, error), (base_ns + moved, error)])
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic_ns=monotonic_ns, sleep=sleep))
        monkeypatch.setattr(
            clock, "epoch_offset", lambda: dict(zip(("offset_ns", "error_ns"), next(offsets), strict=True))
        )
        ahead_ns = 7 * MS
        return clock._once(lambda: (now_ns[0] + base_ns - ahead_ns) // MS, random.Random(5))

    still, offset = told(0, 0), told(moved_ns, errors_ns)
    assert still is not None and offset is not None
    assert offset.error_s - still.error_s == pytest.approx((abs(moved_ns) + 2 * errors_ns) / 1e9, abs=1e-12)
    assert abs(offset.ahead_s - (7 * MS + moved_ns) / 1e9) <= offset.error_s
    assert told(1_100_000, 0) is None


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (86_400.0, "86,400 s ahead of PerfDB's"),
        (-500.4, "500 s behind PerfDB's"),
        (301, "301 s ahead"),
    ],
)
def test_a_clock_by_which_no_job_can_be_given_is_told_with_its_offset_and_the_remedy(
    ahead_s: float, said: str
) -> None:
    """Within five minutes any clock will do."""
    told = clock.fault(ahead_s)
    assert said in told and "300 s are allowed" in told and "timedatectl set-ntp true" in told
    assert clock.fault(300.0) == clock.fault(-30.0) == ""
    assert "s ahead of the leader's, and" in clock.fault(301.0, "the leader's")


def test_a_clock_that_nobody_keeps_is_told_long_before() -> None:
    """Beyond five seconds, either way, with the remedy; not what a clock under NTP is off."""
    for ahead_s, said in ((30.0, "30 s ahead of PerfDB's"), (-5.6, "6 s behind PerfDB's")):
        told = clock.warning(ahead_s)
        assert said in told and "timedatectl set-ntp true" in told and clock.fault(ahead_s) == ""
    assert clock.warning(5.0) == clock.warning(-0.4) == ""
