"""Another host's moments on our clock, against clocks whose offset and drift are known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from inferbench_tasks.timing.other_clock import OtherClock
from inferbench_tasks.timing.two_clocks import Exchange
from tests.two_clocks import MS, Clock, S, asked_around


def steady(ahead_s: float, gains_ppm: float) -> Clock:
    return Clock(lambda at_ns: round(ahead_s * S + at_ns * gains_ppm / 1e6))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("ahead_s", "gains_ppm"), [(30, 50), (-30, 50), (30, -50), (86_400, 400), (0, 0)])
@pytest.mark.parametrize(("out_ms", "back_ms"), [(0.1, 0.1), (3.0, 0.1), (0.1, 3.0)])
def test_moments_lie_where_they_belong_to_the_error_that_is_told(
    seed: int, ahead_s: float, gains_ppm: float, out_ms: float, back_ms: float
) -> None:
    """Of requests of 5 ms over half a minute, whichever way is the slow one; the error is half of the shortest round
    trip, and what two clocks may drift apart until somebody asks again."""
    rng, other = random.Random(seed), steady(ahead_s, gains_ppm)
    around = asked_around(other, 10 * S, 30 * S, rng, out_ms, back_ms)
    clock = OtherClock.told(*around)
    assert clock is not None
    shortest_ns = min(each.round_trip_ns for group in around for each in group)
    for at_ns in (10 * S, *(rng.randrange(10 * S, 40 * S) for _ in range(50)), 40 * S - 5 * MS):
        start_ns, end_ns = other.at(at_ns), other.at(at_ns + 5 * MS)
        shift = clock.shift(start_ns, end_ns)
        assert shift is not None
        assert abs(start_ns - shift.ahead_ns - at_ns) <= shift.error_ns
        assert abs(end_ns - shift.ahead_ns - at_ns - 5 * MS) <= shift.error_ns
        assert shift.error_ns <= shortest_ns / 2 + 1.3 * MS


def test_the_line_follows_a_steady_clock() -> None:
    """With ways that take the same time both ways it is wrong by microseconds after half a minute in which a clock of
    50 ppm went 1.5 ms, and tells these 50 ppm."""
    other = steady(30, 50)
    clock = OtherClock.told(*asked_around(other, 10 * S, 30 * S, None))
    assert clock is not None and clock.gains * 1e6 == pytest.approx(50, abs=0.5)
    for at_ns in range(10 * S, 40 * S, S):
        shift = clock.shift(other.at(at_ns), other.at(at_ns))
        assert shift is not None and abs(other.at(at_ns) - shift.ahead_ns - at_ns) < 5_000


def test_a_clock_that_was_slewed_meanwhile_is_told_by_its_error() -> None:
    """Its line is of before and after: what lies between is wrong by more, never by more than is told."""
    bent = Clock(lambda at_ns: 30 * S + round(400e-6 * min(at_ns, 25 * S)))
    clock = OtherClock.told(*asked_around(bent, 10 * S, 30 * S, None))
    assert clock is not None
    wrong_ns = []
    for at_ns in range(10 * S, 40 * S, S):
        shift = clock.shift(bent.at(at_ns), bent.at(at_ns))
        assert shift is not None
        wrong_ns.append(abs(bent.at(at_ns) - shift.ahead_ns - at_ns))
        assert wrong_ns[-1] <= shift.error_ns
    assert max(wrong_ns) > 2 * MS


@pytest.mark.parametrize(
    "set_by", [lambda at_ns: 20 * MS if at_ns > 25 * S else 0, lambda at_ns: 20 * MS if at_ns > 45 * S else 0]
)
def test_a_clock_that_was_set_has_no_moments(set_by: Callable[[int], int]) -> None:
    """Between two questions while it lasted, or among those behind it: nothing is put by it."""
    moved = Clock(lambda at_ns: 30 * S + set_by(at_ns))
    clock = OtherClock.told(*asked_around(moved, 10 * S, 30 * S, None, after_s=10))
    assert clock is None or clock.shift(moved.at(20 * S), moved.at(30 * S)) is None


def test_without_questions_on_either_side_there_is_no_line() -> None:
    """Nor of two groups at one moment."""
    before, meanwhile, after = asked_around(steady(30, 50), 10 * S, 30 * S, None)
    assert OtherClock.told((), meanwhile, after) is None and OtherClock.told(before, meanwhile, ()) is None
    one: list[Exchange] = [before[0]]
    assert OtherClock.told(one, (), one) is None
