"""The parts of an evaluation (``evaluate.part``) as one: in a report's section on answers as a run that asked all of
it, in its advice as the worst of them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from inferbench_tasks.analysis.evaluations.together import but_for_part, otherwise
from inferbench_tasks.analysis.evaluations.whole import left_out, whole_of
from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report.choose import samples_per_s
from inferbench_tasks.analysis.report.kept import overshoot
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.verdict import KINDS
from inferbench_tasks.errors import InputError, PerfDBError


@dataclass
class Merged:
    """``views``: what is shown, in its order; the parts of one evaluation are one of them. ``notes``: what was merged,
    and why other parts were not.
    """

    views: list[RunView] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merged(views: Sequence[RunView], silent: Sequence[RunView] = ()) -> Merged:
    """Evaluated runs; those that are parts stand together at the place of their first, each measure anew over all.

    ``silent``: runs without answers, which are named where they are the parts that are missing.
    """
    found = Merged()
    groups = _grouped(views, _is_part, _same)
    others = [group[0] for group in groups if not _is_part(group[0])]
    labels = iter(_labels([group for group in groups if _is_part(group[0])], others))
    for group in groups:
        if not _is_part(group[0]):
            found.views += group
            continue
        try:
            whole, notes = _whole(group, next(labels))
        except (InputError, PerfDBError) as error:
            found.views += group
            names = ", ".join(view.label for view in group)
            missing = "".join(
                f" {view.label} has no answers, it is {view.said}."
                for view in silent
                if _beside(group[0], view)
            )
            found.notes.append(
                f"{names}: shown as they are, for they make no whole: {error}.{missing} "
                "No figure is of all samples."
            )
        else:
            found.views.append(whole)
            found.notes += notes
    return found


def one_of_each(views: Sequence[RunView]) -> list[tuple[RunView, RunView]]:
    """Each run that can be chosen, twice: as it is shown, and itself. The parts of one evaluation are no alternatives
    of each other: they are one, by what it is called, with the figures of the worst of them (``_against``).
    """
    groups = _grouped(views, lambda view: bool(_part(view)), _beside)
    several = [group for group in groups if len(group) > 1]
    labels = iter(_labels(several, [group[0] for group in groups if len(group) == 1]) if several else [])
    found = []
    for group in groups:
        worst = max(group, key=_against)
        if len(group) == 1:
            found.append((worst, worst))
            continue
        job = {**worst.job, "evaluate": but_for_part(worst.job)["evaluate"]}
        found.append((replace(worst, job=job, label=next(labels)), worst))
    return found


def _against(view: RunView) -> tuple[int, int, float, float, float]:
    """The larger the more speaks against it: its verdict, that it misses its objective or may, how far it is beyond a
    bound, how few samples it answers in a second, its p99. What nobody knows is worse than any figure.
    """
    kind = KINDS.index(view.verdict.kind) if view.verdict is not None else len(KINDS)
    objective = {None: 0, "met": 0, "undecided": 1, "missed": 2}[objective_word(view)]
    p99_ms = view.figure("e2e_latency_ms.p99")
    return kind, objective, overshoot(view), -samples_per_s(view), math.inf if p99_ms is None else p99_ms


def _grouped(
    views: Sequence[RunView], is_part: Callable[[RunView], bool], same: Callable[[RunView, RunView], bool]
) -> list[list[RunView]]:
    """All views, in their order; parts of one evaluation stand together at the place of their first, others alone."""
    groups: list[list[RunView]] = []
    for view in views:
        beside = (group for group in groups if is_part(group[0]) and same(group[0], view))
        group = next(beside, None) if is_part(view) else None
        if group is None:
            groups.append([view])
        else:
            group.append(view)
    return groups


def _is_part(view: RunView) -> bool:
    return bool(_part(view)) and view.result is not None and view.answers is not None


def _part(view: RunView) -> str | None:
    part: str | None = (view.job.get("evaluate") or {}).get("part")
    return part


def _beside(first: RunView, other: RunView) -> bool:
    """Whether they were asked for as parts of one evaluation, divided alike: jobs that differ in their parts alone."""
    divided = {(_part(view) or "").partition("/")[2] for view in (first, other)}
    return len(divided) == 1 and but_for_part(first.job) == but_for_part(other.job)


def _same(first: RunView, other: RunView) -> bool:
    """Whether they are parts of one evaluation."""
    assert first.result is not None and other.result is not None
    return _beside(first, other) and otherwise(first.result, other.result) is None


def _labels(groups: Sequence[Sequence[RunView]], others: Sequence[RunView]) -> list[str]:
    """What each group is called: as its runs would be if they differed in no part."""
    named = []
    for group in groups:
        job = copy.deepcopy(group[0].job)
        del job["evaluate"]["part"]
        named.append(replace(group[0], job=job))
    name_by_difference([*named, *(replace(view) for view in others)])
    return [f"{view.label}, {len(group)} parts" for view, group in zip(named, groups, strict=True)]


def _whole(parts: Sequence[RunView], label: str) -> tuple[RunView, list[str]]:
    """One run in their place, and what is to be said of it; InputError where they are not all, or not of one."""
    tables = [view.answers() for view in parts if view.answers is not None]
    results = [view.result for view in parts if view.result is not None]
    found = whole_of(list(zip(results, tables, strict=True)))
    evaluations = [view.evaluation for view in parts]
    whole = replace(
        parts[0], label=label, verdict=found.result.verdict, result=found.result, answers=lambda: found.table
    )
    notes = [f"{label}: one evaluation of {', '.join(view.label for view in parts)}, each measure made anew."]
    lacking = left_out(evaluations)  # told with the part that lacks it
    notes += [f"{label} has no {name}: {why}." for name, why in found.left_out.items() if name not in lacking]
    notes += [
        f"{label} has no {name}, for {view.label} has none: {why}."
        for view in parts
        for name, why in view.evaluation["under_load"].get("left_out", {}).items()
        if any(name in each["under_load"].get("measures", {}) for each in evaluations)
    ]
    if not all(view.valid for view in parts):
        bad = ", ".join(f"{view.label} is {view.said}" for view in parts if not view.valid)
        notes.append(f"{label} does not count, for {bad}.")
    return whole, notes
