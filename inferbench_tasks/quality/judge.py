"""All measures of one run's answers."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure
from inferbench_tasks.registry import derived

log = logging.getLogger(__name__)


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


def judge(answered: Answered, names: Iterable[str] = ()) -> Judgement:
    """The measures of these names, all that there are without any; UnknownKindError for a name of none.

    One of a package that can't be used is left out with the reason: the answers were measured, and others are of them.
    """
    judgement = Judgement()
    for name in names or MEASURES:
        try:
            quality = MEASURES.told(name, partial(_quality, answered))
        except UnknownKindError:
            raise
        except InputError as error:
            log.warning("%s", error)
            quality = str(error)
        if isinstance(quality, str):
            judgement.left_out[name] = quality
        else:
            judgement.values[name] = quality
    return judgement


def _quality(answered: Answered, kind: type[Measure]) -> Quality | str:
    """The figure, or why there is none."""
    measure = derived(kind, Measure)()
    seen = seen_by(measure, answered)
    if isinstance(seen, str):
        return seen
    if reason := measure.missing(seen):
        return reason
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # judged by what comes out
        quality = measure.of(seen)
    return quality if math.isfinite(quality.value) else f"it came out as {quality.value}, which is no figure"


def require(answered: Answered, names: Iterable[str], dataset: str, field: str = "evaluate.measures") -> None:
    """InputError at ``field`` where one of the named measures can't be had of these; it lists those that can."""
    for name in names:
        if reason := MEASURES.told(name, partial(_missing, answered), field):
            fitting = [known for known in MEASURES if _fits(known, answered)]
            raise InputError(
                f"{name} can't be had on {dataset} with this model: {reason}. Measures that fit: "
                f"{', '.join(fitting) or 'none'}. See docs/how-to/own-measure.md for what each needs",
                field=field,
            )


def _missing(answered: Answered, kind: type[Measure]) -> str | None:
    measure = derived(kind, Measure)()
    seen = seen_by(measure, answered)
    return seen if isinstance(seen, str) else measure.missing(seen)


def _fits(name: str, answered: Answered) -> bool:
    try:
        return MEASURES.told(name, partial(_missing, answered)) is None
    except InputError:  # a package's; whoever names it is told why
        return False
