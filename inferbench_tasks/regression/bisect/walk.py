"""What to measure next, and what came out: a function of the state alone.

1. The ends are compared first. Where they do not differ by the smallest change that counts, there is no culprit.
2. Then halving, each step against the good end: is it as good, or changed by what the ends differ by, or half of it?
3. Last the step that is named against the one before it, by a number of pairs that was fixed before: its effect and
   the stage are of data that did not choose it.

The whole answer is wrong with at most the probability ``task.error``: every decision has its share of it. A step
that can't be built or decided is left out as ``git bisect skip`` does; the answer is a range if the change lies beside
such steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from inferbench_tasks.regression.bisect.sequential import Effect, differ, estimate, is_changed, sizes_of
from inferbench_tasks.regression.bisect.state import BisectState, Comparison, Decision, Purpose
from inferbench_tasks.regression.power import Noise, noise_of
from inferbench_tasks.regression.spread import Array

#: The ends are measured until the standard error of their difference is at most so much of it: that they differ by half
#: of it, the least that a changed step is taken to be changed by, is then beyond doubt.
ERROR_RATIO = 0.25
#: Blocks that the ends and the named step have at least.
LEAST_BLOCKS = 4
#: Of the intervals that are shown.
LEVEL = 0.95


@dataclass(frozen=True)
class Next:
    """Two steps to run in turns until there are ``pairs`` pairs of them."""

    purpose: Purpose
    baseline: int
    candidate: int
    pairs: int


@dataclass(frozen=True)
class Interval:
    """The last step that is as the good end, and the first that is as the bad one."""

    good: int
    bad: int


def share_of_error(state: BisectState, steps_before: int) -> float:
    """What one decision may be wrong by: equal shares for the ends, the named step and each halving.

    Skipped steps can make more halvings: these share one more, each half of what is left of it.
    """
    halvings = math.ceil(math.log2(max(1, len(state.task.steps) - 1)))
    share = state.task.error / (halvings + 3)
    return share if steps_before < halvings else share / 2 ** (steps_before - halvings + 1)


def interval(state: BisectState) -> Interval:
    """Where the change is, by the decisions so far."""
    decided = [(c.candidate, c.decision) for c in state.comparisons if c.purpose != "culprit"]
    good = max((place for place, decision in decided if decision == "same"), default=0)
    return Interval(good, min(place for place, decision in decided if decision == "changed"))


def middle(state: BisectState, within: Interval) -> int | None:
    """The step nearest to the middle that can be measured; None where none is left."""
    undecided = {c.candidate for c in state.comparisons if c.purpose == "step" and c.decision == "undecided"}
    places = [
        place
        for place in range(within.good + 1, within.bad)
        if place not in state.skipped and place not in undecided
    ]
    return min(places, key=lambda place: (abs(2 * place - within.good - within.bad), place), default=None)


def next_comparison(state: BisectState) -> Next | None:
    """What has to be measured; None once everything is decided. Decides what can be decided (in ``state``)."""
    block = state.task.block
    while True:
        for comparison in state.comparisons:
            if comparison.decision is None:
                comparison.decision = _decided(state, comparison)
            if comparison.decision is None:
                pairs = (comparison.pairs() // block + 1) * block
                return Next(comparison.purpose, comparison.baseline, comparison.candidate, pairs)
        following = _following(state)
        if following is None:
            return None
        purpose, baseline, candidate = following
        known = state.between(baseline, candidate)
        runs = list(known.runs) if known else []  # what was measured of these two is not measured again
        state.comparisons.append(
            Comparison(purpose=purpose, baseline=baseline, candidate=candidate, runs=runs)
        )


def _following(state: BisectState) -> tuple[Purpose, int, int] | None:
    last = len(state.task.steps) - 1
    ends = state.of("ends")
    if ends is None:
        return "ends", 0, last
    if ends.decision != "changed" or state.of("culprit"):
        return None
    within = interval(state)
    place = middle(state, within)
    return ("step", 0, place) if place is not None else ("culprit", within.good, within.bad)


def _decided(state: BisectState, comparison: Comparison) -> Decision | None:
    task = state.task
    blocks = comparison.blocks(task.block)
    if not blocks:
        return None
    noise = noise_so_far(state)
    answer: bool | None = None
    if comparison.purpose == "ends":
        answer = differ(blocks, task.detect, noise, share_of_error(state, 0))
        if answer:
            size = estimate(blocks, noise, LEVEL)
            known = len(blocks) >= LEAST_BLOCKS and size.error <= ERROR_RATIO * abs(size.effect)
            answer = True if known else None
    elif comparison.purpose == "step":
        before = [c for c in state.comparisons if c.purpose == "step" and c.decision is not None]
        answer = is_changed(blocks, sizes(state), noise, share_of_error(state, len(before)))
    else:
        ends = state.of("ends")
        assert ends is not None
        if comparison.pairs() >= len(ends.blocks(task.block)) * task.block:
            effect = estimate(blocks, noise, LEVEL)
            answer = effect.excludes_zero and effect.effect * sizes(state)[0] > 0
    if answer is None:
        return "undecided" if comparison.pairs() >= task.most_pairs else None
    return "changed" if answer else "same"


def sizes(state: BisectState) -> Array:
    """What a changed step may be changed by, ln ratio; by the ends alone, so that it stays the same."""
    ends = state.of("ends")
    assert ends is not None
    blocks = ends.blocks(state.task.block)
    noise = noise_of(blocks)
    return sizes_of(estimate(blocks, noise, LEVEL), noise.freedom)


def noise_so_far(state: BisectState) -> Noise:
    """The noise within and between the blocks of all comparisons."""
    groups = {(c.baseline, c.candidate): c.blocks(state.task.block) for c in state.comparisons}
    return noise_of(*(blocks for blocks in groups.values() if blocks))


def effect_of(state: BisectState, comparison: Comparison) -> Effect:
    """What two steps differ by, with its 95% interval; of a comparison with at least one block."""
    return estimate(comparison.blocks(state.task.block), noise_so_far(state), LEVEL)
