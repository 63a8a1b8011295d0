"""Two clocks: what exchanges prove, against clocks whose offset and drift are known."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from inferbench_tasks.timing.two_clocks import (
    DRIFT,
    Bounds,
    Envelope,
    Exchange,
    bounds_at,
    drift_ppm,
    thinned,
)

MS = 1_000_000


class Clocks:
    """Ours is the truth; the other is ahead and gains. Each way takes its own time."""

    def __init__(self, ahead_ns: int, gains_ppm: float, rng: random.Random) -> None:
        self.ahead_ns, self.gains, self.rng = ahead_ns, gains_ppm * 1e-6, rng

    def other_ns(self, at_ns: int) -> int:
        return at_ns + self.offset_ns(at_ns)

    def offset_ns(self, at_ns: int) -> int:
        return self.ahead_ns + round(at_ns * self.gains)

    def exchange(self, at_ns: int, out_ms: float, back_ms: float) -> Exchange:
        arrived, answers = at_ns + self.late_ns(out_ms), self.late_ns(0.05)
        answered = arrived + answers
        return Exchange(
            at_ns, self.other_ns(arrived), self.other_ns(answered), answered + self.late_ns(back_ms)
        )

    def late_ns(self, least_ms: float) -> int:
        return round((least_ms + self.rng.expovariate(10)) * MS)

    def some(self, from_ns: int, out_ms: float = 0.1, back_ms: float = 0.1) -> list[Exchange]:
        return [self.exchange(from_ns + i * 2 * MS, out_ms, back_ms) for i in range(50)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("out_ms", "back_ms"), [(0.1, 0.1), (20.0, 0.1), (0.1, 20.0)])
def test_the_true_offset_lies_within_the_bounds(seed: int, out_ms: float, back_ms: float) -> None:
    """Whichever way is the slow one, and at moments before, between and after the exchanges; no wider than needed."""
    rng = random.Random(seed)
    clocks = Clocks(rng.randrange(-(10**15), 10**15), rng.uniform(-900, 900), rng)
    exchanges = clocks.some(5_000 * MS, out_ms, back_ms)
    shortest_ns = min(exchange.round_trip_ns for exchange in exchanges)
    for at_ns in (4_900 * MS, 5_050 * MS, exchanges[-1].received_ns, 9_000 * MS):
        bounds = bounds_at(exchanges, at_ns)
        assert bounds is not None
        assert bounds.low_ns <= clocks.offset_ns(at_ns) <= bounds.high_ns
        away_ns = max(abs(at_ns - exchanges[0].sent_ns), abs(at_ns - exchanges[-1].received_ns))
        assert bounds.error_ns <= shortest_ns / 2 + DRIFT * away_ns + 1


@pytest.mark.parametrize("seed", range(5))
def test_many_moments_have_the_bounds_that_each_has_by_itself(seed: int) -> None:
    """Before, between and after the exchanges; while one is under way they may be wider, and never narrower."""
    rng = random.Random(seed)
    clocks = Clocks(rng.randrange(10**15), rng.uniform(-300, 300), rng)
    exchanges = [*clocks.some(10**15), *clocks.some(10**15 + 700 * MS)]
    envelope = Envelope(exchanges)
    for at_ns in sorted(rng.randrange(10**15 - 500 * MS, 10**15 + 2_000 * MS) for _ in range(300)):
        one, many = bounds_at(exchanges, at_ns), envelope.at(at_ns)
        assert one is not None and many is not None
        assert many.low_ns <= clocks.offset_ns(at_ns) <= many.high_ns
        if any(e.sent_ns < at_ns < e.received_ns for e in exchanges):
            assert many.low_ns <= one.low_ns + 2 and many.high_ns >= one.high_ns - 2
        else:
            assert abs(many.low_ns - one.low_ns) <= 2 and abs(many.high_ns - one.high_ns) <= 2
    assert Envelope([]).at(0) is None


def test_the_other_host_s_pause_is_no_part_of_the_round_trip() -> None:
    """It answered 30 ms after the question had come; both ways took 5."""
    exchange = Exchange(0, 1_000 * MS + 2 * MS, 1_000 * MS + 32 * MS, 35 * MS)
    assert exchange.round_trip_ns == 5 * MS
    assert bounds_at([exchange], 35 * MS) == Bounds(997 * MS - 35_000, 1_002 * MS + 35_000)


def test_a_clock_that_was_set_in_between_has_no_offset() -> None:
    """Two exchanges that can't both be true tell nothing, rather than the middle of both."""
    rng = random.Random(1)
    before, after = Clocks(0, 0, rng).some(0), Clocks(50 * MS, 0, rng).some(200 * MS)
    assert bounds_at(before, 0) is not None and bounds_at(after, 0) is not None
    assert bounds_at([*before, *after], 300 * MS) is None
    assert bounds_at([], 0) is None


@pytest.mark.parametrize("gains_ppm", [-400.0, 0.0, 35.0, 400.0])
def test_what_a_clock_gains_lies_within_the_range_that_is_told(gains_ppm: float) -> None:
    """A minute apart, with round trips of 0.3 ms: to within some ten ppm."""
    clocks = Clocks(10**12, gains_ppm, random.Random(7))
    told = drift_ppm(clocks.some(0), clocks.some(60_000 * MS))
    assert told is not None
    least, most = told
    assert least <= gains_ppm <= most and most - least < 15


@pytest.mark.parametrize("groups", [((), (1,)), ((1,), ())])
def test_without_two_groups_no_drift_is_told(groups: tuple[Sequence[int], Sequence[int]]) -> None:
    """Nor of two at the same time."""
    clocks = Clocks(0, 0, random.Random(3))
    before, after = ([clocks.exchange(n, 0.1, 0.1) for n in group] for group in groups)
    assert drift_ppm(before, after) is None
    same = clocks.some(0)
    assert drift_ppm(same, same) is None


def test_of_many_exchanges_the_best_are_kept() -> None:
    """Of each neighbours' group the shortest round trip, in the order of time; of few all."""
    trips = [5, 3, 4, 9, 1, 7, 2]
    asked = [Exchange(100 * at, 0, 0, 100 * at + trip) for at, trip in enumerate(trips)]
    kept = thinned(asked, 3)
    assert [one.round_trip_ns for one in kept] == [3, 1, 2]
    assert kept == sorted(kept, key=lambda one: one.sent_ns)
    assert thinned(asked, 7) == asked and thinned([], 3) == []
