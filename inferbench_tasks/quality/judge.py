"""All measures of one run's answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from inferbench_tasks.quality.base import MEASURES, Answered, Quality


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
            judgement.values[name] = measure.of(answered)
    return judgement
