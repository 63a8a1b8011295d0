"""Which steps a bisection compares, and what it answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inferbench_tasks.regression.bisect.answer import answer_of, can_be_all_of
from inferbench_tasks.regression.bisect.sequential import Effect
from inferbench_tasks.regression.bisect.state import BisectState
from inferbench_tasks.regression.bisect.walk import next_comparison, share_of_error
from tests.unit.regression.bisect.builders import add_block, begun, finished, open_comparison, slower_from


@pytest.mark.parametrize("culprit", [1, 7, 16, 31, 32])
def test_one_of_32_is_found_in_seven_comparisons(culprit: int) -> None:
    """15.25: 3% made by one of 32 steps: it is named with its interval and stage, the ends and the last one counted."""
    state = finished(begun(32), slower_from(culprit), seed=culprit)
    answer = answer_of(state)
    assert (answer.kind, answer.bad) == ("culprit", culprit)
    assert answer.steps <= 7
    assert answer.effect is not None and answer.effect.low <= math.log(1.03) <= answer.effect.high
    assert answer.effect.excludes_zero and answer.worse and answer.whole
    assert answer.stage == "inference"


def test_ends_that_do_not_differ_have_no_culprit() -> None:
    """15.25: the ends are compared first, and nothing else is measured where nothing changed."""
    state = finished(begun(32), lambda place: 1.0)
    assert answer_of(state).kind == "none"
    assert [comparison.purpose for comparison in state.comparisons] == ["ends"]


def test_pairs_that_are_looked_at_twice_were_measured_once() -> None:
    """Of two steps the ends are the named step and the one before it: their runs stand in both comparisons."""
    state = finished(begun(1), slower_from(1))
    answer = answer_of(state)
    assert (answer.kind, answer.steps) == ("culprit", 2)
    assert answer.pairs == state.comparisons[-1].pairs()


def test_an_improvement_is_found_as_well() -> None:
    """A step that made it faster is named, and called better."""
    answer = answer_of(finished(begun(8), slower_from(3, by=-0.05)))
    assert (answer.kind, answer.bad, answer.worse) == ("culprit", 3, False)


def test_steps_that_can_not_be_built_leave_a_range() -> None:
    """15.25: as git bisect skip: where the change lies beside them the answer names all of them, else it is as good."""
    beside = answer_of(finished(begun(8), slower_from(5), unbuildable=(4, 5)))
    assert (beside.kind, beside.good, beside.bad) == ("range", 3, 6)
    elsewhere = answer_of(finished(begun(8), slower_from(2), unbuildable=(4, 5)))
    assert (elsewhere.kind, elsewhere.bad) == ("culprit", 2)


def test_a_culprit_of_less_than_the_whole_change_says_so() -> None:
    """Two steps made it slower: one is named with its own effect, and that others changed it, too."""
    answer = answer_of(finished(begun(8), lambda place: 1 + 0.08 * (place >= 2) + 0.08 * (place >= 6)))
    assert answer.kind == "culprit" and answer.bad in (2, 6) and not answer.whole


def test_the_ends_are_known_with_an_error_too() -> None:
    """Ends of 10% +- 2 and a step of 8% +- 1.5: 2 points apart, and both errors together are the root of 2^2 + 1.5^2,
    2.5 points, so nothing is left for other steps, though 10 is beyond 8 + 1.5. Of ends of 11% 3 points are left: there
    is. A step of more than the ends is all of it.
    """
    step = Effect(0.080, 0.0075, 0.065, 0.095, 40)
    for of_ends, whole in ((0.10, True), (0.11, False), (0.06, True)):
        ends = Effect(of_ends, 0.010, of_ends - 0.020, of_ends + 0.020, 40)
        assert can_be_all_of(step, ends) is whole
        faster = Effect(-of_ends, 0.010, -of_ends - 0.020, -of_ends + 0.020, 40)
        assert can_be_all_of(Effect(-0.080, 0.0075, -0.095, -0.065, 40), faster) is whole


def test_many_small_steps_are_no_culprit() -> None:
    """A drift of 0.3% in each of sixteen steps: no single one is named."""
    answer = answer_of(finished(begun(16), lambda place: 1 + 0.003 * place))
    assert answer.kind in ("scattered", "range") or not answer.whole


def test_a_bisection_goes_on_where_it_was() -> None:
    """15.25: the state read again after every block asks for the same, and no pair is measured twice."""
    rng, straight = np.random.default_rng(3), finished(begun(8), slower_from(5), seed=3)
    state, level = begun(8), slower_from(5)
    while next_comparison(state):
        add_block(state, open_comparison(state), level, rng)
        state = BisectState.model_validate_json(state.model_dump_json())
    assert state == straight
    assert next_comparison(state) is None


def test_two_steps_alone_are_measured_once() -> None:
    """One step after the good end: the ends' pairs are the named step's, too."""
    state = finished(begun(1), slower_from(1))
    assert answer_of(state).kind == "culprit"
    assert state.comparisons[0].runs == state.comparisons[1].runs


def test_the_shares_of_the_error_add_up_to_no_more_than_the_error() -> None:
    """However many halvings skipped steps make."""
    for steps in (1, 2, 5, 32, 1000):
        state = begun(steps)
        ends_and_last = 2 * share_of_error(state, 0) if steps > 1 else 2 * state.task.error / 3
        assert (
            ends_and_last + sum(share_of_error(state, before) for before in range(200))
            <= state.task.error + 1e-12
        )


def test_what_can_not_be_decided_is_said() -> None:
    """Too few pairs for the noise: not decided whether the ends differ."""
    noisy = begun(8, most_pairs=8, detect=0.002)
    assert answer_of(finished(noisy, slower_from(3, by=0.002))).kind == "undecided"
