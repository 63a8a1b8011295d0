"""Why a configuration is recommended, in words from the figures: its place, its lead, and its room to each bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inferbench_tasks.analysis.certainty import Change
from inferbench_tasks.analysis.recommend.candidates import Bound, Candidate
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.figures import FIGURES

_ORDINALS = ("best", "second best", "third best")


def why(
    judge: Judge,
    fitting: Sequence[Candidate],
    index: int,
    kept: int,
    unknown: int,
    objective: str,
    bounds: Sequence[Bound],
    *,
    traded: bool,
) -> str:
    """The reasons for ``fitting[index]`` of the candidates that keep all ``bounds``, the best by ``objective`` first.

    ``kept``: how many keep them; ``unknown``: of how many nobody can tell. ``traded``: whether the rows are a trade-off
    with accuracy, in which ``fitting`` are its steps alone. The lead is the ratio of both means with its 95% interval
    (``certainty.Change``), the difference where that is no ratio; the room to a bound is that of the worst run, since
    every run has to keep it.
    """
    candidate = fitting[index]
    following = fitting[index + 1] if index + 1 < len(fitting) else None
    counts = (len(judge.candidates), kept, unknown)
    sentences = [_place(counts, index, objective, bounds, traded=traded)]
    if following is not None:
        sentences.append(_lead(judge, candidate, following, objective, traded=traded))
    return " ".join([*sentences, *(_room(candidate, bound) for bound in bounds)])


def _place(
    counts: tuple[int, int, int], index: int, objective: str, bounds: Sequence[Bound], *, traded: bool
) -> str:
    candidates, kept, unknown = counts
    kept_bounds = ", ".join(map(str, bounds))
    if kept == 1:
        if bounds and unknown:
            return f"Of {candidates} configurations it alone is known to keep {kept_bounds}; {unknown} can't be judged."
        return f"Of {candidates} configuration(s) it alone {f'keeps {kept_bounds}' if bounds else f'has {objective}'}."
    start = (
        f"{kept} of {candidates} configurations {f'keep {kept_bounds}' if bounds else f'have {objective}'}"
    )
    if bounds and unknown:
        start += f" ({unknown} can't be judged)"
    if traded and index:
        return f"{start}; it is the best by {objective} of those that are more accurate than the row above."
    return f"{start}; it is the {_ORDINALS[index]} of them by {objective}."


def _lead(judge: Judge, candidate: Candidate, following: Candidate, objective: str, *, traded: bool) -> str:
    theirs, mine = (judge.estimate(each, objective) for each in (following, candidate))
    own, other = _texts(mine.mean, theirs.mean, *_whole(objective))[:2]
    change = Change.between(theirs, mine)
    # In a trade-off the next row is not the next by the objective: those between are no more accurate.
    beside = f"the next {'more accurate one' if traded else 'one'}'s {other}"
    if change.shares:
        size, low, high = (_texts(math.exp(end), 1.0)[0] for end in (change.size, *change.interval()))
        apart = f"{size} times {beside} (95%: {low} to {high})"
    else:
        sides = ("below", "above") if change.size < 0 else ("above", "below")
        ends = [-end if change.size < 0 else end for end in change.interval()]
        low, high = (f"{_text(abs(end))} {sides[end < 0]}" for end in sorted(ends))
        apart = f"{_text(abs(change.size))} {sides[0]} {beside} (95%: {low} to {high})"
    probability = judge.beats(candidate, following, objective)
    sure = "over 99%" if probability >= 0.995 else f"{probability:.0%}"
    ending = f"it is better {f'by {objective} ' if traded else ''}with probability {sure}"
    if not change.settled:
        ending += ", so the difference may be noise"
    return f"Its {objective} {own} is {apart}; {ending}."


def _room(candidate: Candidate, bound: Bound) -> str:
    values = candidate.values(bound.figure)
    worst = max(values) if bound.at_most else min(values)
    runs = f" in the worst of its {len(values)} runs" if len(values) > 1 else ""
    text, limit = _texts(worst, bound.value, *_whole(bound.figure))[:2]
    return f"Its {bound.figure} is {text}{runs}, {_beside(worst, bound, limit)}."


def _beside(worst: float, bound: Bound, limit: str) -> str:
    room = abs(bound.value - worst)
    side = "below" if bound.at_most else "above"
    if room == 0:
        return f"just at the bound of {limit}"
    if bound.value == 0:
        return f"{_text(room)} {side} the bound of 0"
    if not bound.at_most and worst > 2 * bound.value:
        return f"{_text(worst / bound.value)} times the bound of {limit}"
    return f"{_texts(100 * room / bound.value, 100.0)[0]}% {side} the bound of {limit}"


def _whole(figure: str) -> tuple[float, ...]:
    """What a share must not be rounded to."""
    return (1.0,) if FIGURES.named(figure).share else ()


def _texts(*values: float) -> list[str]:
    """As many digits, three at least, as tell these values from each other: 99.96 beside 100 is not 100."""
    for digits in range(3, 17):
        texts = [_text(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _text(value: float, digits: int = 3) -> str:
    """So many digits, and all that stand before the point."""
    if not 100 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - len(str(int(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text
