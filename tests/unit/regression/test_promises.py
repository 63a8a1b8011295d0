"""What is promised of the rule, on series of known noise (`benchmarks.regression` has the larger tables)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.regression.compare import AT, NIGHTS, detected
from benchmarks.regression.noise import RECORDED, drawn, recorded, session_bias, shifted, white
from benchmarks.regression.rivals import ours
from benchmarks.regression.stated import DRIFTS, night, rates
from inferbench_tasks.regression.decide import decide, usual_noise
from inferbench_tasks.regression.power import minimum_detectable_effect
from tests.unit.regression.builders import P50, START


@pytest.mark.parametrize("drift", DRIFTS)
def test_the_stated_effect_is_found_as_often_as_stated(drift: float) -> None:
    """15.3: in about 80% of nights, whatever the machine does between pairs; without a change at most at 1%."""
    detection, false_alarms, *_ = rates(drift, 150, 8, seed=21)
    assert detection == pytest.approx(0.8, abs=0.1)
    assert false_alarms <= 0.01 + 2 * math.sqrt(0.01 * 0.99 / 150)


def test_drift_between_pairs_hides_no_change() -> None:
    """15.3: 6% of drift between pairs, 2% of noise: a night with the stated change is suspected in most series."""
    suspected = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sessions = [
            replace(night(0.06, 8, rng), id=f"{i:02d}", at=START.replace(day=i + 1)) for i in range(13)
        ]
        stated = minimum_detectable_effect(usual_noise(decide({P50: sessions[:-1]})[P50]), 8)
        slower = tuple(value * math.exp(stated) for value in sessions[-1].candidate)
        events = decide({P50: [*sessions[:-1], replace(sessions[-1], candidate=slower)]})[P50].events
        suspected += any(event.kind == "suspected" and event.session == "12" for event in events)
    assert suspected >= 12


def test_small_changes_are_found_by_the_nights_together() -> None:
    """15.4: 1% in white noise, a third of what one night shows, is confirmed within ten nights in half the series."""
    rng = np.random.default_rng(31)
    series = [white(rng, NIGHTS)[: AT + 10] for _ in range(24)]
    assert sum(detected(ours(shifted(nights, AT, 0.01))) for nights in series) >= 12


def test_nights_of_bad_luck_are_no_change() -> None:
    """15.4: one night of ten has one side 5% slower: in 720 such nights at most four changes are confirmed."""
    rng = np.random.default_rng(32)
    assert sum(len(ours(session_bias(rng, NIGHTS))) for _ in range(24)) <= 4


def test_calm_nights_count_for_more_than_disturbed_ones() -> None:
    """15.4: recorded p95 whose noise differs twentyfold from night to night: 6% is found in more than one of ten."""
    rng = np.random.default_rng(33)
    nights = recorded("p95_ms", RECORDED.with_name("quiet.parquet"))
    series = [drawn(nights, rng, NIGHTS)[: AT + 10] for _ in range(30)]
    assert sum(detected(ours(shifted(one, AT, 0.06))) for one in series) >= 4
