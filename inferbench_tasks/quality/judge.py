"""All measures of one run's answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered, Quality
from inferbench_tasks.quality.measures import MEASURES


@dataclass(frozen=True)
class Judgement:
    """``values``: by the measure's name. ``left_out``: name -> why there is no figure."""

    values: dict[str, Quality] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def judge(answered: Answered, names: Iterable[str] = ()) -> Judgement:
    """The measures of these names, all that there are without any; UnknownKindError for a name of none."""
    judgement = Judgement()
    for name in names or MEASURES:
        measure = MEASURES.load(name)()
        if reason := measure.missing(answered):
            judgement.left_out[name] = reason
        else:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # judged by what comes out
                quality = measure.of(answered)
            if math.isfinite(quality.value):
                judgement.values[name] = quality
            else:
                judgement.left_out[name] = f"it came out as {quality.value}, which is no figure"
    return judgement


def require(answered: Answered, names: Iterable[str], dataset: str, field: str = "evaluate.measures") -> None:
    """InputError at ``field`` where one of the named measures can't be had of these; it lists those that can."""
    for name in names:
        if reason := MEASURES.load(name, field)().missing(answered):
            fitting = [known for known in MEASURES if MEASURES.load(known)().missing(answered) is None]
            raise InputError(
                f"{name} can't be had on {dataset} with this model: {reason}. Measures that fit: "
                f"{', '.join(fitting) or 'none'}. See docs/how-to/own-measure.md for what each needs",
                field=field,
            )
