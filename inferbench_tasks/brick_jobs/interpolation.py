"""A model at a batch size between two at which all of its bricks were measured.

Each brick that has no time at that size is interpolated between its times at the two (``bricks/interpolation.py``).
How far that is off is told by other models that were measured at the two sizes and at one between them: what their
bricks' interpolated times add up to, over what their measured ones do, warm and streamed each by itself. Where fewer
than three models tell it, the interval is what the two times allow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.documents import cut_of, of_one, shapes_of, shapes_text
from inferbench_tasks.brick_jobs.same_models import kinds
from inferbench_tasks.bricks.interpolation import bounds_ns, interpolated
from inferbench_tasks.bricks.measure.method import STATES
from inferbench_tasks.bricks.prediction import StandIns, stand_ins
from inferbench_tasks.bricks.results import WHOLE, Result

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.store import PerfDBResults

#: Fewer models, measured at a size between the two, do not tell how far an interpolation is off.
FEWEST_JUDGED = 3
#: So many other models are looked at, the newest.
_MOST_OTHERS = 20


#: How a model was cut at each batch size at which all of its bricks have a time, and these times.
Sizes = tuple[Mapping[int, CutModel], Mapping[str, Result]]


@dataclass(frozen=True)
class Line:
    """A model at two batch sizes, ``lower`` and ``upper``, and the times of all of its bricks at both."""

    lower: CutModel
    upper: CutModel
    times: Mapping[str, Result]

    @property
    def sizes(self) -> tuple[int, int]:
        """The two batch sizes."""
        return self.lower.batch_size, self.upper.batch_size

    def at(self, batch: int) -> CutModel:
        """The model at a size between, where it was never cut: bricks that are no other there keep their names."""
        parts = tuple(_between(*pair) for pair in zip(self.lower.parts, self.upper.parts, strict=True))
        whole = WHOLE + _between(self.lower.whole, self.upper.whole)
        return self.lower.model_copy(update={"batch_size": batch, "parts": parts, "whole": whole, "work": ()})

    def ends(self, cut: CutModel, part: str) -> tuple[Result, Result]:
        """A brick of the model as it is cut at a size between: its times at the two."""
        at = cut.parts.index(part)
        return self.times[self.lower.parts[at]], self.times[self.upper.parts[at]]

    def results(self, cut: CutModel, absent: Collection[str]) -> dict[str, Result]:
        """The interpolated times of these bricks."""
        return {
            part: interpolated(*self.ends(cut, part), self.sizes, cut.batch_size, part)
            for part in dict.fromkeys(cut.parts)
            if part in absent
        }

    def whole(self, cut: CutModel) -> dict[str, Result]:
        """The interpolated time of the model itself, where it was measured at both sizes."""
        ends = [self.times.get(self.lower.whole), self.times.get(self.upper.whole)]
        if ends[0] is None or ends[1] is None:
            return {}
        return {cut.whole: interpolated(ends[0], ends[1], self.sizes, cut.batch_size, cut.whole)}

    def log_off(self, cut: CutModel, state: str) -> float:
        """Of the model at a size between where it was measured too: interpolated over measured sum, as a logarithm."""
        guesses = self.results(cut, set(cut.parts))
        total = math.fsum(_mean_ns(guesses[part], state) for part in cut.parts)
        return math.log(total / math.fsum(_mean_ns(self.times[part], state) for part in cut.parts))

    def bounds(self, cut: CutModel, absent: Collection[str], state: str) -> StandIns:
        """What the two times of each of these bricks allow their sum to be."""
        names = [part for part in cut.parts if part in absent]
        known = self.results(cut, absent)
        spans = [
            bounds_ns(_mean_ns(lower, state), _mean_ns(upper, state), self.sizes, cut.batch_size)
            for lower, upper in (self.ends(cut, name) for name in names)
        ]
        total = math.fsum(_mean_ns(known[name], state) for name in names)
        return StandIns(
            frozenset(absent),
            math.fsum(least for least, _ in spans) / total,
            math.fsum(most for _, most in spans) / total,
        )


def _between(lower: str, upper: str) -> str:
    return lower if lower == upper else f"{lower}~{upper}"


def _mean_ns(result: Result, state: str) -> float:
    return float(np.mean(result.rounds_ns[state]))


def line_between(of: Sizes, batch: int) -> Line | None:
    """Between the nearest sizes on both sides; None where there is none on one, and where the model is not cut into the
    same bricks at both: a runtime may fuse otherwise in larger batches."""
    sizes, times = of
    below, above = [size for size in sizes if size < batch], [size for size in sizes if size > batch]
    if not below or not above or not same_layers(sizes[max(below)], sizes[min(above)]):
        return None
    return Line(sizes[max(below)], sizes[min(above)], times)


def why_none(of: Sizes, batch: int) -> str:
    """Why nothing is said of a batch size, where ``line_between`` has no line; with what is there."""
    sizes = sorted(of[0])
    if not sizes:
        return f"no batch size of it is measured there, with all of its bricks: {batch} can't be interpolated"
    there = f"all of its bricks are measured there at batch {_listed(sizes)}"
    if shapes := shapes_text(of[0][sizes[0]].shapes):
        there += f" ({shapes})"
    if sizes[0] < batch < sizes[-1]:
        return f"{there}, but it is not cut into the same layers at both sides of {batch}: none can be interpolated"
    return (
        f"{there}; {batch} is beyond: bricks are interpolated between two sizes, and nothing is said of what lies "
        f"beyond. Measure it at {batch}, or at a size on the other side"
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes[:-1])) + (" and " if len(sizes) > 1 else "") + str(sizes[-1])


def same_layers(one: CutModel, other: CutModel) -> bool:
    """Whether two cuts are the same layers in the same bricks, at sizes of their own."""
    return (one.operators, one.needs) == (other.operators, other.needs)


def measured_sizes(results: PerfDBResults, cut: CutModel) -> Sizes:
    """Those of one model, cut at any size, at the results' setting; by what it was made from, if that is known. At one
    size of its free inputs: nothing lies between a batch of short texts and one of long ones."""
    found = partial(results.cuts_at, cut.granularity, cut.view, cut.precision)
    if cut.made_from is None:
        named = found({"model": cut.name, "digest": cut.digest or None})
        return _complete(results, [one for one in named if cut.shapes in shapes_of(one)])
    own = (of_one(one, cut.made_from) for one in found({"made_from": cut.made_from}))
    of = {"source": cut.source, "shapes": cut.shapes}
    return _complete(results, [{**one, **of} for one in own if one is not None])


def others(results: PerfDBResults, line: Line) -> list[Sizes]:
    """Other models that were measured at both sizes of the line, the newest first; never one that is the line's at its
    lower size (``same_models``): another export of a model tells nothing of how well that is predicted."""
    of = line.lower
    at = partial(results.cuts_at, of.granularity, of.view, of.precision)
    wholes: dict[tuple[Any, ...], dict[int, str]] = {}
    for one in at({}, ("model", "digest", "batch_size", "made_from", "whole")):
        for key in _models_of(one):
            wholes.setdefault(key, {}).setdefault(one["batch_size"], one["whole"])
    found = []
    for model, digest, key in _apart(wholes, line.sizes)[:_MOST_OTHERS]:
        of_model = {"model": model, "digest": digest} if key is None else {}
        sizes, times = _complete(results, at({**of_model, "made_from": key}))
        if set(line.sizes) <= sizes.keys() and not _same(line, sizes[line.sizes[0]], times):
            found.append((sizes, times))
    return found


def _same(line: Line, other: CutModel, times: Mapping[str, Result]) -> bool:
    one, two = kinds([line.lower, other], {**times, **line.times})
    return one == two


def _models_of(document: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Name, digest and ``made_from`` of each model that a document is of: the first two only where the last is not
    known, which has the sizes of its free inputs in it."""
    known = [(None, None, key) for key in document.get("made_from") or ()]
    return known or [(document.get("model"), document.get("digest"), None)]


def _apart(wholes: Mapping[tuple[Any, ...], Mapping[int, str]], ends: Sequence[int]) -> list[tuple[Any, ...]]:
    """Of models (with what they are as a whole at each batch size) those that were cut at both ``ends``; of those that
    are the same networks there, with other weights, the one that was cut at most sizes."""
    chosen: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for key, sizes in wholes.items():
        if all(end in sizes for end in ends):
            there = tuple(sizes[end] for end in ends)
            if there not in chosen or len(sizes) > len(wholes[chosen[there]]):
                chosen[there] = key
    return list(chosen.values())


def _complete(results: PerfDBResults, documents: Sequence[Mapping[str, Any]]) -> Sizes:
    """Of documents of one model, the newest first."""
    times = results.get_many({name for one in documents for name in (*one["parts"], one["whole"])})
    sizes: dict[int, CutModel] = {}
    for one in documents:
        if all(part in times for part in one["parts"]):
            sizes.setdefault(one["batch_size"], cut_of(0, one, times))
    return sizes, times


def judged(models: Iterable[Sizes], line: Line, state: str) -> list[float]:
    """Of each model that was measured at a size between too, the logarithm of interpolated over measured sums of its
    bricks in that state; the worst, if at several, and of those with the same operators: versions of one model are off
    alike."""
    low, high = line.sizes
    worst: dict[tuple[str, ...], float] = {}
    for sizes, times in models:
        own = Line(sizes[low], sizes[high], times)
        logs = [
            own.log_off(sizes[size], state)
            for size in sizes
            if low < size < high and same_layers(own.lower, own.upper) and same_layers(own.lower, sizes[size])
        ]
        if logs:
            of = own.lower.operators
            worst[of] = max([*logs, worst.get(of, 0.0)], key=abs)
    return list(worst.values())


def calibrating(models: Iterable[Sizes], line: Line, batch: int) -> list[tuple[CutModel, dict[str, Result]]]:
    """Those models that were measured as a whole at both sizes of the line, interpolated to the one between."""
    found = []
    for sizes, times in models:
        own = Line(sizes[line.sizes[0]], sizes[line.sizes[1]], times)
        if not same_layers(own.lower, own.upper):
            continue
        cut = own.at(batch)
        if whole := own.whole(cut):
            found.append((cut, {**times, **own.results(cut, set(cut.parts) - times.keys()), **whole}))
    return found


@dataclass(frozen=True)
class Interpolation:
    """What is interpolated of a model. ``off``: state -> what its sum may truly be; ``judged``: so many other models
    told it.

    ``spreads``: state -> the root mean square of the logarithms by which these were off, None where they are too few to
    say.
    """

    sizes: tuple[int, int]
    times: Mapping[str, Result]
    off: Mapping[str, StandIns]
    judged: int
    spreads: Mapping[str, float] | None
    calibrating: tuple[tuple[CutModel, Mapping[str, Result]], ...]

    def facts(self, ratio: float, state: str) -> dict[str, Any]:
        """As predictions show it; ``ratio``: its share of the time, ``state``: in which that is."""
        return {
            "interpolated": len(self.times),
            "interpolated_ratio": ratio,
            "interpolated_between": list(self.sizes),
            "interpolation_judged_by": self.judged,
            "interpolation_error_ratio": None if self.spreads is None else math.expm1(self.spreads[state]),
        }


def interpolation(
    results: PerfDBResults, cut: CutModel, line: Line, absent: Collection[str]
) -> Interpolation | None:
    """Of a model's bricks that have no time at its batch size. None where it is cut into other layers there."""
    if not same_layers(line.lower, cut):
        return None
    models = others(results, line)
    logs = {state: judged(models, line, state) for state in STATES}
    count = len(logs[STATES[0]])
    spreads: dict[str, float] | None = None
    if count >= FEWEST_JUDGED:
        spreads = {state: math.sqrt(math.fsum(log * log for log in of) / count) for state, of in logs.items()}
        off = {state: stand_ins(absent, spread, count) for state, spread in spreads.items()}
    else:
        off = {state: line.bounds(cut, absent, state) for state in STATES}
    return Interpolation(
        line.sizes,
        line.results(cut, absent),
        off,
        count,
        spreads,
        tuple(calibrating(models, line, cut.batch_size)),
    )
