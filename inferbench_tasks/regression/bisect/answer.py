"""What a bisection says, once it is decided or as far as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from inferbench_tasks.regression.attribution import COLD_START, Part, attribute
from inferbench_tasks.regression.base import worse
from inferbench_tasks.regression.bisect.sequential import Effect
from inferbench_tasks.regression.bisect.state import BisectState, Comparison
from inferbench_tasks.regression.bisect.walk import effect_of, interval
from inferbench_tasks.regression.watched import figure_named, watched

#: ``culprit``: one step. ``range``: one of several, since those between can't be measured or told. ``none``: the ends
#: do not differ. ``scattered``: the ends differ, no two neighbours do: several small changes, or an unlikely error.
#: ``undecided``: the most pairs did not say whether the ends differ. ``open``: not finished.
Kind = Literal["culprit", "range", "none", "scattered", "undecided", "open"]


@dataclass(frozen=True)
class Answer:
    """``good`` and ``bad``: places of the last good and the first bad step, None unless something was named.

    ``ends`` and ``effect``: by how much the ends differ, and by how much these two; ``whole``: whether the second can
    be all of the first. ``stage``: which part of a request changed, None if none stands out.
    """

    kind: Kind
    good: int | None = None
    bad: int | None = None
    ends: Effect | None = None
    effect: Effect | None = None
    whole: bool = True
    worse: bool | None = None
    stage: str | None = None
    parts: tuple[Part, ...] = ()
    steps: int = 0
    pairs: int = 0


def answer_of(state: BisectState) -> Answer:
    """Of the state as it is."""
    # What was measured of two steps counts once, for whatever it was looked at again.
    pairs = {(c.baseline, c.candidate): c.pairs() for c in state.comparisons}
    measured = partial(Answer, steps=len(state.comparisons), pairs=sum(pairs.values()))
    ends = state.of("ends")
    if ends is None or ends.decision is None:
        return measured("open")
    of_ends = effect_of(state, ends)
    if ends.decision != "changed":
        return measured("none" if ends.decision == "same" else "undecided", ends=of_ends)
    within = interval(state)
    last = state.of("culprit")
    if last is None or last.decision is None:
        return measured("open", within.good, within.bad, of_ends)
    effect = effect_of(state, last)
    kind: Kind = "culprit" if within.bad - within.good == 1 else "range"
    if last.decision != "changed":
        kind = "scattered"
    figure = figure_named(state.task.figure)
    slower = worse(effect.effect, higher=figure.higher)
    stage, parts = _stage(state, last, slower=slower)
    whole = can_be_all_of(effect, of_ends)
    if kind == "scattered":
        stage = None
    return measured(kind, within.good, within.bad, of_ends, effect, whole, slower, stage, tuple(parts))


def can_be_all_of(effect: Effect, ends: Effect) -> bool:
    """Whether a step's effect can be all that the ends differ by: both are known with an error, and unless the ends
    differ by more than both errors together explain, nothing says that other steps changed it, too.
    """
    both = math.hypot(effect.high - effect.effect, ends.high - ends.effect)
    return abs(ends.effect) - abs(effect.effect) <= both


def _stage(state: BisectState, last: Comparison, *, slower: bool) -> tuple[str | None, Sequence[Part]]:
    """By the runs of the two steps that were named."""
    if state.task.figure == "cold_start_ms":
        return COLD_START, ()
    baseline, candidate = (
        [run.stages_ms for run in last.runs if run.side == side and run.figure is not None]
        for side in ("baseline", "candidate")
    )
    of = watched(state.task.of_kind)
    parts = attribute(baseline, candidate, slower=slower, parts=of.parts, work=of.work)
    return parts.stage, parts.parts
