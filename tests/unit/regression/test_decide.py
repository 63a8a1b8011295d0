"""Decisions: nothing without confirmation, both directions alike, and the baseline moves only afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferbench_tasks.regression.base import SeriesKey, Session, percent
from inferbench_tasks.regression.decide import decide, usual_noise
from tests.unit.regression.builders import P50, RATE, nights


def kinds(shifts: list[float], key: SeriesKey = P50, **more: float) -> list[tuple[str, str]]:
    events = decide({key: nights(shifts, **more)})[key].events  # type: ignore[arg-type]
    return [(event.kind, event.session) for event in events]


def test_a_lasting_shift_is_suspected_then_confirmed_by_another_session() -> None:
    """5% from night 10 on: suspected that night, confirmed the next, with its size."""
    state = decide({P50: nights([0] * 10 + [0.05] * 5)})[P50]
    assert [(e.kind, e.session) for e in state.events[:2]] == [
        ("suspected", "night-010"),
        ("confirmed", "night-011"),
    ]
    confirmed = state.events[1]
    assert confirmed.worse and percent(confirmed.effect) == pytest.approx(5, abs=1)
    assert confirmed.sessions == ("night-011",), "the data that raised the suspicion can't confirm it"


def test_the_very_first_night_can_be_the_suspect() -> None:
    """Its own pairs say what could be detected; the next night confirms it."""
    state = decide({P50: nights([0.5])})[P50]
    assert [e.kind for e in state.events] == ["suspected"]
    noise = usual_noise(state)
    assert 0 < noise.within < 0.1 and noise.sessions == 1
    assert kinds([0.5, 0.5]) == [("suspected", "night-000"), ("confirmed", "night-001")]


def test_one_bad_night_is_never_a_regression() -> None:
    """A night of 8% that does not come again is suspected and dropped."""
    decisions = kinds([0] * 10 + [0.08] + [0] * 10)
    assert decisions[:2] == [("suspected", "night-010"), ("dropped", "night-011")]
    assert "confirmed" not in dict(decisions)


def test_after_confirmation_the_baseline_has_moved() -> None:
    """The new level raises no second alarm; a return to the old one is an improvement, confirmed alike."""
    state = decide({P50: nights([0] * 8 + [0.05] * 10 + [0] * 10)})[P50]
    confirmed = [event for event in state.events if event.kind == "confirmed"]
    assert [event.worse for event in confirmed] == [True, False]
    assert confirmed[0].session == "night-009"
    assert "night-018" < confirmed[1].session <= "night-022"


def test_a_new_baseline_starts_from_zero() -> None:
    """Once the baseline is the slower code itself, ratios are 1 again and that is no improvement."""
    before = nights([0] * 8 + [0.05] * 3)
    after = [
        replace(s, id=f"z-{s.id}", at=s.at.replace(month=2), baseline_id="b") for s in nights([0] * 8, seed=2)
    ]
    events = decide({P50: before + after})[P50].events
    assert [event.session for event in events if event.kind == "confirmed"] == ["night-009"]


def test_less_throughput_is_worse() -> None:
    """The direction depends on the figure: 5% fewer requests per second are a regression."""
    events = decide({RATE: nights([0] * 8 + [-0.05] * 4)})[RATE].events
    assert [event.worse for event in events if event.kind == "confirmed"] == [True]


def test_thirty_quiet_nights_of_eight_series_alarm_nobody() -> None:
    """In three times 240 nights of 3% noise at most one change is confirmed.

    One of them has three nights in a row that are 2.3 to 2.9 standard deviations faster.
    """
    confirmed = 0
    for first in (0, 8, 16):
        seeds = range(first, first + 8)
        histories = {replace(P50, name=f"job-{i}"): nights([0] * 30, noise=0.03, seed=i) for i in seeds}
        events = [event for state in decide(histories).values() for event in state.events]
        confirmed += sum(event.kind == "confirmed" for event in events)
    assert confirmed <= 1


def test_too_few_pairs_decide_nothing() -> None:
    """Four pairs can't reach 1% by ranks or signs, whatever they show: no decision is made of them."""
    assert kinds([0, 0.5, 0.5, 0.5], pairs=4) == []


def test_the_same_sessions_give_the_same_decisions() -> None:
    """Asked again, also with sessions in another order, the answer is the same."""
    sessions = nights([0] * 10 + [0.03] * 8, noise=0.02)
    once, again = decide({P50: sessions})[P50], decide({P50: sessions[::-1]})[P50]
    assert once.events == again.events and once.events


def test_a_level_that_was_taken_back_is_forgotten() -> None:
    """Slower code becomes the baseline and is reverted: quiet nights against its predecessor are quiet."""

    def later(month: int, sessions: list[Session]) -> list[Session]:
        return [replace(s, id=f"{month}-{s.id}", at=s.at.replace(month=month)) for s in sessions]

    slower = later(1, nights([0] * 5 + [0.2] * 2, baseline_id="a"))
    reverted = later(2, nights([-1 / 6] * 2, baseline_id="b", seed=2))
    quiet = later(3, nights([0] * 8, baseline_id="a", seed=3))
    events = decide({P50: slower + reverted + quiet})[P50].events
    assert [event.session[0] for event in events if event.kind == "confirmed"] == ["1", "2"]
    again = later(4, nights([0.2] * 3, baseline_id="a", seed=4))
    events = decide({P50: slower + reverted + quiet + again})[P50].events
    assert [event.session[0] for event in events if event.kind == "confirmed"] == ["1", "2", "4"]
