"""Replay: what in the environment of two runs differs, and whether their figures agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.certainty import Change, Estimate, of_answers, of_one_run
from inferbench_tasks.analysis.evaluations.differing import beyond_rounding
from inferbench_tasks.analysis.stated import NOTHING, Stated, part_of, stated
from inferbench_tasks.dotted import flatten
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.manifests.lock import compare
from inferbench_tasks.perfdb.documents import ResultBase, ResultDocument
from inferbench_tasks.perfdb.offered import NO_LOAD

#: Facts of the environment that differ between any two runs and say nothing.
_FLEETING = ("environment.system.host",)


@dataclass(frozen=True)
class Judged:
    """A figure that a replay is judged by; ``value`` None where the run lacks it.

    ``exact``: the same samples are asked again, so that only rounding may differ. ``drifts``: see ``Figure``.
    """

    name: str
    unit: str
    value: float | None
    stated: Stated = NOTHING
    exact: bool = False
    drifts: bool = True


def environment_differences(
    then: ResultBase, now: ResultBase, parts: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """{what, then, now} of everything that could change a figure and is not the same.

    ``parts``: what the kind of both runs knows beside their environment; of serving runs it is known here.
    """
    if parts is None:
        assert isinstance(then, ResultDocument) and isinstance(now, ResultDocument)
        parts = parts_of_serving(then), parts_of_serving(now)
    before, after = _facts(then, parts[0]), _facts(now, parts[1])
    return [
        {"what": path, "then": before.get(path), "now": after.get(path)}
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path) and path not in _FLEETING
    ]


def lock_differences(
    then: ResultBase, now: Mapping[str, Any], *, before: bool = False
) -> list[dict[str, Any]] | None:
    """{field, then, now} of what differs in the locks (see ``compare``); None where the first run has none."""
    lock = then.extensions.get("lock")
    return compare(lock, now, before=before) if lock else None


def agreement(then: ResultDocument, now: ResultDocument) -> list[dict[str, Any]]:
    """Of the figures of serving that a replay is judged by; see ``agreement_of``.

    InputError for a run that has none: it was only traced.
    """
    if not any(judged.value is not None for judged in _judged(then)) and _without_load(then):
        raise InputError(
            f"{then.run_id} had no load and no measure of its answers, so that there is nothing that a replay could be "
            "judged by; run its submission again instead",
            field="RUN",
        )
    return agreement_of(_judged(then), _judged(now), count=then.valid and now.valid)


def agreement_of(then: Sequence[Judged], now: Sequence[Judged], *, count: bool) -> list[dict[str, Any]]:
    """{figure, unit, then, now, ratio, agrees} of the figures that either run has; ``count``: both runs are valid.

    They agree where no difference is shown, as in a comparison of so many figures (``differences``). ``agrees`` is None
    where nobody can tell: one run lacks the figure (it is withheld, or too few requests support it), or does not count.
    """
    before, after = ({one.name: one for one in judged} for judged in (then, now))
    names = [
        name
        for name in dict.fromkeys([*before, *after])
        if any(name in of and of[name].value is not None for of in (before, after))
    ]
    # Exact ones are judged by no interval: they widen none.
    compared = sum(not (before.get(name) or after[name]).exact for name in names)
    rows = []
    for name in names:
        first, second = before.get(name), after.get(name)
        old, new = first.value if first else None, second.value if second else None
        agrees: bool | None = None
        if count and first and second and old is not None and new is not None:
            if first.exact:
                agrees = not beyond_rounding(new - old, old, new)
            else:
                agrees = not Change.between(_estimate(first, old), _estimate(second, new)).excludes_none(
                    compared
                )
        rows.append(
            {
                "figure": name,
                "unit": (first or after[name]).unit,
                "then": old,
                "now": new,
                "ratio": new / old if old and new is not None else None,
                "agrees": agrees,
            }
        )
    return rows


def _estimate(judged: Judged, value: float) -> Estimate:
    if not judged.drifts:
        return of_answers((value,), judged.stated)
    return of_one_run(value, stated=judged.stated)


def _judged(result: ResultDocument) -> list[Judged]:
    stored = part_of(result)
    return [
        Judged(
            figure.name,
            figure.unit,
            figure.stored(stored["summary"]),
            stated(figure, stored),
            drifts=figure.drifts,
        )
        for figure in FIGURES.on("replay")
    ] + [
        Judged(figure.name, figure.unit, figure.stored(stored["summary"]), exact=True)
        for figure in FIGURES.values()
        if figure.evaluated
    ]


def _without_load(result: ResultDocument) -> bool:
    return result.load.arrivals.get("kind") == NO_LOAD


def parts_of_serving(result: ResultDocument) -> dict[str, Any]:
    """What a serving run's figures depend on, beside its environment."""
    return {
        "backend": {"kind": result.backend.kind, "version": result.backend.version},
        "device": result.device.name,
        "model": result.model.digest,
    }


def _facts(result: ResultBase, parts: Mapping[str, Any]) -> dict[str, Any]:
    return flatten(
        {
            "environment": result.environment,
            "versions": result.provenance.versions,
            "commit": result.provenance.git_sha,
            **parts,
        }
    )
