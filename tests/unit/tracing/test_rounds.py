"""The runs of a trace by round, and of a runtime that tells means alone their mean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inferbench_tasks.analysis.stack.profile import profile_of
from inferbench_tasks.tracing.layers import layer_times
from inferbench_tasks.tracing.rounds import rounds_of
from inferbench_tasks.tracing.spans import Span
from tests.unit.analysis.stack.spans import layer, run


def means(round_: int, us: float = 60) -> Iterator[Span]:
    """Three runs of 100, 200 and 240 us, the second of which holds the mean of the runs' layer."""
    yield from run(0, round_, [], 100)
    yield from run(1, round_, [layer("a", "Conv", us, mean_of_runs=3)], 200 - us)
    yield from run(2, round_, [], 240)


def test_means_are_set_against_the_mean_of_all_runs() -> None:
    """One run holds the layer of 60 us, and it is a part of the three runs' mean of 180 us, in each round."""
    spans = [*means(0), *means(1, 90)]
    first, second = rounds_of(spans)
    assert [(each.length_ns, each.means, each.count) for each in (*first, *second)] == [
        (180_000, True, 3)
    ] * 2
    found = profile_of(spans)
    assert found is not None and found.framework_ms == pytest.approx(0.180)
    assert found.between_ms_by_round == pytest.approx((0.120, 0.090))
    assert (found.runs, found.means, found.left_out) == (6, True, 0)
    times = layer_times(spans)
    assert times is not None and times.framework_ms == pytest.approx(0.180)
    assert times.explained_ratio == pytest.approx((60 + 90) / 2 / 180)


def test_layers_that_are_more_than_their_runs_say_so() -> None:
    """Counters that tell 190 us of runs of 180: the run of 240 us that would hold them hides nothing."""
    spans = [*run(0, 0, [], 120), *run(1, 0, [layer("a", "Conv", 190, mean_of_runs=2)], 50)]
    times = layer_times(spans)
    assert times is not None and times.explained_ratio == pytest.approx(190 / 180)


def test_single_runs_stand_for_themselves() -> None:
    """A runtime that tells of each run: every run with its own length, those without layers in none."""
    spans = [
        *run(0, 0, [layer("a", "Conv", 60)], 10),
        *run(1, 0, [], 500),
        *run(2, 1, [layer("a", "Conv", 80)], 10),
    ]
    assert [[(each.length_ns, each.means) for each in of_round] for of_round in rounds_of(spans)] == [
        [(70_000, False)],
        [(90_000, False)],
    ]
