"""Changes of the machine, over all series of a night."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferbench_tasks.regression.base import SeriesKey, Session
from inferbench_tasks.regression.changepoint import change_points
from inferbench_tasks.regression.machine_changes import RATE, corrected, machine_changes
from tests.unit.regression.builders import P50, nights


def changed(histories: dict[SeriesKey, list[Session]]) -> dict[str, list[int]]:
    """Figure -> its changes, percent."""
    found = machine_changes(histories)
    return {key.figure: [round(one["change_percent"]) for one in ones] for key, ones in found.items()}


def moved(at: int, count: int, factor: float, seed: int = 1) -> list[Session]:
    """Nights of one code whose baseline takes ``factor`` times as long from that one on."""
    return [
        session if number < at else replace(session, baseline=tuple(factor * v for v in session.baseline))
        for number, session in enumerate(nights([0.0] * count, seed=seed))
    ]


def series(count: int) -> list[SeriesKey]:
    return [replace(P50, figure=f"figure_{number}") for number in range(count)]


def test_code_that_became_the_baseline_is_no_change_of_the_machine() -> None:
    """The level of the baseline is looked at as long as its code is the same."""
    same = moved(8, 16, 1.2)
    other = [
        replace(session, baseline_id="b") if number >= 8 else session for number, session in enumerate(same)
    ]
    assert changed({P50: other}) == {"p50_ms": []}
    assert changed({P50: same}) == {"p50_ms": [20]}


def test_one_series_of_many_has_to_be_so_much_surer() -> None:
    """Six nights and six: of 924 ways to divide them 2 are as far apart, and no shuffling of them is better than
    1 / 462. Alone that is below 1%; of 30 series one would need 1 / 3,000, which ten and ten nights reach."""
    few, many = moved(6, 12, 1.2), moved(10, 20, 1.2)
    assert changed({P50: few}) == {"p50_ms": [20]}
    first, *others = series(30)
    quiet = {key: nights([0.0] * 20, seed=seed) for seed, key in enumerate(others, 100)}
    few = [replace(session, id=quiet[others[0]][at + 8].id) for at, session in enumerate(few)]
    assert changed({first: few, **quiet})[first.figure] == []
    found = machine_changes({first: many, **quiet})
    [one] = found[first]
    assert round(one["change_percent"]) == 20 and one["session"] == "night-010"
    # 6,000 permutations, none of which is as far apart: 30 x 1 / 6,001, as one of 30 is called.
    assert one["p_value"] == pytest.approx(30 / 6001)
    assert not any(found[key] for key in others)


def test_a_machine_that_changed_for_all_is_found_as_early_as_for_one() -> None:
    """Where all 30 series changed, each is tested at the whole rate."""
    keys = series(30)
    found = changed({key: moved(6, 12, 1.2, seed) for seed, key in enumerate(keys)})
    assert all(percent and percent[0] in (18, 19, 20, 21, 22) for percent in found.values())


def test_series_of_other_nights_are_no_part_of_a_night() -> None:
    """A series that ended with a night of its own is judged by itself."""
    gone = [replace(session, id=f"a{session.id}") for session in moved(6, 12, 1.2)]
    quiet = {key: nights([0.0] * 12, seed=seed) for seed, key in enumerate(series(30), 50)}
    assert changed({P50: gone, **quiet})["p50_ms"] == [20]


def test_false_alarms_are_of_a_night_and_not_of_a_series() -> None:
    """Of 10 nights with 20 series of nothing but noise: tests at 1% each have an alarm in 18%, and one over all series
    in 1%."""
    rng = np.random.default_rng(5)
    alone = together = 0
    for _ in range(10):
        noise = [list(rng.normal(0, 1, 16)) for _ in range(20)]
        alone += any(change_points(history, RATE) for history in noise)
        level, permutations = corrected(noise)
        together += any(change_points(history, level, permutations) for history in noise)
    assert together == 0 < 2 <= alone
