"""Whose times a prediction follows from: what of it was measured where, and what was not measured at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.places import names_of
from inferbench_tasks.brick_jobs.result import Origin
from inferbench_tasks.bricks.results import Result

MEASURED, CALIBRATING = "measured", "calibrating"
#: As sentences have them, in this order.
_WORDS = {
    MEASURED: "{} measured on {}",
    "interpolated": "{} interpolated between times of {}",
    "estimated": "{} estimated from times of {}",
    CALIBRATING: "calibrated by {} times of {}",
}


def origins(
    cut: CutModel,
    known: Mapping[str, Result],
    calibrating: Collection[str],
    not_measured: Mapping[str, Collection[str]],
) -> list[Origin]:
    """``not_measured``: how -> which of the model's bricks; ``calibrating``: bricks of other models, and these
    themselves, that the factor is of. What is in none of these was measured."""
    parts = set(cut.parts)
    rest = parts - {name for names in not_measured.values() for name in names}
    groups = {MEASURED: rest, **{how: parts & set(names) for how, names in not_measured.items()}}
    groups[CALIBRATING] = set(calibrating) & known.keys()
    return [
        Origin.model_validate(
            {"how": how, "times": len(names), "hosts": names_of(known[name] for name in sorted(names))}
        )
        for how, names in groups.items()
        if names
    ]


def in_words(rows: Iterable[Mapping[str, Any] | Origin]) -> str:
    """Such as ``12 measured on a and b, 3 estimated from times of a, calibrated by 93 times of b``."""
    each = [row if isinstance(row, Origin) else Origin.model_validate(row) for row in rows]
    return ", ".join(_WORDS[row.how].format(row.times, _listed(row.hosts)) for row in each)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
