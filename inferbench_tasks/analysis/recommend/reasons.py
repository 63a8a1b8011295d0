"""Why a configuration is recommended, in words from the figures: its place, its lead, and its room to each bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inferbench_tasks.analysis.certainty import Change
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.judge import Judge

_ORDINALS = ("best", "second best", "third best")


def why(
    judge: Judge,
    fitting: Sequence[Candidate],
    index: int,
    kept: int,
    objective: str,
    bounds: Sequence[Bound],
    *,
    traded: bool,
) -> str:
    """The reasons for ``fitting[index]`` of the candidates that keep all ``bounds``, the best by ``objective`` first.

    ``kept``: how many keep them. ``traded``: whether the rows are a trade-off with accuracy, in which ``fitting`` are
    its steps alone. The lead is the ratio of both means with its 95% interval (``certainty.Change``), the difference
    where one is not above 0; the room to a bound is that of the worst run, since every run has to keep it.
    """
    candidate = fitting[index]
    following = fitting[index + 1] if index + 1 < len(fitting) else None
    sentences = [_place(len(judge.candidates), index, kept, objective, bounds, traded=traded)]
    if following is not None:
        sentences.append(_lead(judge, candidate, following, objective))
    return " ".join([*sentences, *(_room(candidate, bound) for bound in bounds)])


def _place(
    candidates: int, index: int, kept: int, objective: str, bounds: Sequence[Bound], *, traded: bool
) -> str:
    what = f"keep {', '.join(map(str, bounds))}" if bounds else f"have {objective}"
    if kept == 1:
        one = what.replace("keep", "keeps", 1) if bounds else f"has {objective}"
        return f"Of {candidates} configuration(s) it alone {one}."
    start = f"{kept} of {candidates} configurations {what}"
    if traded and index:
        return f"{start}; it is the best by {objective} of those that are more accurate than the row above."
    return f"{start}; it is the {_ORDINALS[index]} of them by {objective}."


def _lead(judge: Judge, candidate: Candidate, following: Candidate, objective: str) -> str:
    theirs, mine = (judge.estimate(each, objective) for each in (following, candidate))
    change = Change.between(theirs, mine)
    low, high = change.interval()
    if change.shares:
        apart = f"{math.exp(change.size):.3g} times the next one's {_text(theirs.mean)}"
        low, high = math.exp(low), math.exp(high)
    else:
        side = "above" if change.size >= 0 else "below"
        apart = f"{_text(abs(change.size))} {side} the next one's {_text(theirs.mean)}"
    probability = judge.beats(candidate, following, objective)
    sure = "over 99%" if probability >= 0.995 else f"{probability:.0%}"
    ending = f"it is better with probability {sure}"
    if not change.settled:
        ending += ", so the difference may be noise"
    return f"Its {objective} {_text(mine.mean)} is {apart} (95%: {_text(low)} to {_text(high)}); {ending}."


def _room(candidate: Candidate, bound: Bound) -> str:
    values = candidate.values(bound.figure)
    worst = max(values) if bound.at_most else min(values)
    runs = f" in the worst of its {len(values)} runs" if len(values) > 1 else ""
    return f"Its {bound.figure} is {_text(worst)}{runs}, {_beside(worst, bound)}."


def _beside(worst: float, bound: Bound) -> str:
    room = abs(bound.value - worst)
    side = "below" if bound.at_most else "above"
    if room == 0:
        return f"just at the bound of {_text(bound.value)}"
    if bound.value == 0:
        return f"{_text(room)} {side} the bound of 0"
    if not bound.at_most and worst > 2 * bound.value:
        return f"{_text(worst / bound.value)} times the bound of {_text(bound.value)}"
    return f"{100 * room / bound.value:.3g}% {side} the bound of {_text(bound.value)}"


def _text(value: float) -> str:
    """Three digits, and all that stand before the point."""
    return f"{value:,.0f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"
