"""All measures of one run's answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure


@dataclass(frozen=True)
class Judgement:
    """``values``: by the measure's name. ``left_out``: name -> why there is no figure."""

    values: dict[str, Quality] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def seen_by(measure: Measure, answered: Answered) -> Answered | str:
    """The answers as a measure has them: against targets after the submission's processors. A text says why not."""
    if answered.processed is None or not isinstance(measure, TargetMeasure):
        return answered
    if isinstance(answered.processed, str):
        return answered.processed
    return replace(answered, outputs=answered.processed, processed=None)


def _missing(measure: Measure, answered: Answered) -> str | None:
    seen = seen_by(measure, answered)
    return seen if isinstance(seen, str) else measure.missing(seen)


def judge(answered: Answered, names: Iterable[str] = ()) -> Judgement:
    """The measures of these names, all that there are without any; UnknownKindError for a name of none."""
    judgement = Judgement()
    for name in names or MEASURES:
        measure = MEASURES.load(name)()
        seen = seen_by(measure, answered)
        if isinstance(seen, str):
            judgement.left_out[name] = seen
        elif reason := measure.missing(seen):
            judgement.left_out[name] = reason
        else:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # judged by what comes out
                quality = measure.of(seen)
            if math.isfinite(quality.value):
                judgement.values[name] = quality
            else:
                judgement.left_out[name] = f"it came out as {quality.value}, which is no figure"
    return judgement


def require(answered: Answered, names: Iterable[str], dataset: str, field: str = "evaluate.measures") -> None:
    """InputError at ``field`` where one of the named measures can't be had of these; it lists those that can."""
    for name in names:
        if reason := _missing(MEASURES.load(name, field)(), answered):
            fitting = [known for known in MEASURES if _missing(MEASURES.load(known)(), answered) is None]
            raise InputError(
                f"{name} can't be had on {dataset} with this model: {reason}. Measures that fit: "
                f"{', '.join(fitting) or 'none'}. See docs/how-to/own-measure.md for what each needs",
                field=field,
            )
