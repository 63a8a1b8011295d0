"""The parts of an evaluation (``evaluate.part``) as one run that asked all of it, for a report's section on answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.analysis.evaluations.together import but_for_part, otherwise, together
from inferbench_tasks.analysis.evaluations.under_load import bound_of
from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.quality.intervals import share


@dataclass
class Merged:
    """``views``: what is shown, in its order; the parts of one evaluation are one of them. ``notes``: what was merged,
    and why other parts were not.
    """

    views: list[RunView] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merged(views: Sequence[RunView]) -> Merged:
    """Evaluated runs; those that are parts stand together at the place of their first, each measure anew over all."""
    found = Merged()
    groups: list[list[RunView]] = []
    order: list[RunView | list[RunView]] = []
    for view in views:
        if not _is_part(view):
            order.append(view)
            continue
        group = next((each for each in groups if _same(each[0], view)), None)
        if group is None:
            group = []
            groups.append(group)
            order.append(group)
        group.append(view)
    labels = _labels(groups, [view for view in views if not _is_part(view)])
    for each in order:
        if isinstance(each, RunView):
            found.views.append(each)
            continue
        label = labels[groups.index(each)]
        try:
            whole, notes = _whole(each, label)
        except (InputError, PerfDBError) as error:
            found.views += each
            names = ", ".join(view.label for view in each)
            found.notes.append(f"{names}: shown as they are, for they make no whole: {error}.")
        else:
            found.views.append(whole)
            found.notes += notes
    return found


def _is_part(view: RunView) -> bool:
    return bool(_part(view)) and view.result is not None and view.answers is not None


def _part(view: RunView) -> str | None:
    part: str | None = (view.job.get("evaluate") or {}).get("part")
    return part


def _same(first: RunView, other: RunView) -> bool:
    """Whether they are of one evaluation, divided alike: jobs that differ in their parts alone."""
    assert first.result is not None and other.result is not None
    divided = {str(_part(view)).partition("/")[2] for view in (first, other)}
    return (
        len(divided) == 1
        and but_for_part(first.job) == but_for_part(other.job)
        and otherwise(first.result, other.result) is None
    )


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
    document = together(list(zip(results, tables, strict=True)))
    names = [name for name in tables[0].column_names if all(name in each.column_names for each in tables)]
    table = pa.concat_tables([each.select(names) for each in tables]).sort_by("sample")
    evaluations = [view.evaluation for view in parts]
    first = evaluations[0]
    evaluation = {
        **{name: first[name] for name in _OF_ALL if name in first},
        "samples": document["samples"],
        "under_load": {
            "unanswered": 0,
            "failures": {},
            "tied": sum(each["under_load"].get("tied", 0) for each in evaluations),
            "measures": document["measures"],
            "left_out": {**_left_out(evaluations), **document["left_out"]},
        },
        "one_by_one": {"measures": _alone(table)},
        "differing": _differing(evaluations),
        **_confusion(evaluations),
    }
    result = results[0].model_copy(update={"extensions": {**results[0].extensions, "evaluation": evaluation}})
    whole = replace(parts[0], label=label, result=result, answers=lambda: table)
    notes = [f"{label}: one evaluation of {', '.join(view.label for view in parts)}, each measure made anew."]
    lacking = _left_out(evaluations)  # told with the part that lacks it
    notes += [
        f"{label} has no {name}: {why}." for name, why in document["left_out"].items() if name not in lacking
    ]
    notes += [
        f"{label} has no {name}, for {view.label} has none: {why}."
        for view in parts
        for name, why in view.evaluation["under_load"].get("left_out", {}).items()
        if any(name in each["under_load"].get("measures", {}) for each in evaluations)
    ]
    if not document["valid"]:
        bad = ", ".join(f"{view.label} is {view.said}" for view in parts if not view.valid)
        notes.append(f"{label} does not count, for {bad}.")
    return whole, notes


#: What is the same of all parts, see ``together``.
_OF_ALL = ("dataset", "data", "scenario", "answers_are", "tolerance_ratio")


def _alone(table: pa.Table) -> dict[str, Any]:
    """Top-1 of the answers to single samples; none where they are no classes, or there are no labels."""
    if not {"label", "answer_one_by_one"} <= set(table.column_names):
        return {}
    label, answer = table["label"], table["answer_one_by_one"]
    if label.null_count or answer.null_count or not table.num_rows:
        return {}
    right = int(np.count_nonzero(label.to_numpy() == answer.to_numpy()))
    return {"top1_ratio": share(right, table.num_rows).as_dict()}


def _differing(evaluations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of all parts' samples; InputError where they were held to other bounds (by another version), so that their
    counts make no sum."""
    bounds = {bound_of(each) for each in evaluations}
    if len(bounds) > 1:
        told = " and ".join(sorted(f"{bound:.2g}" if bound else "none" for bound in bounds))
        raise InputError(f"answers under load were held to bounds of {told}", field="RUN")
    parts = [each["differing"] for each in evaluations]
    merged: dict[str, Any] = {
        "compared": sum(part["compared"] for part in parts),
        "beyond_tolerance": sum(part["beyond_tolerance"] for part in parts),
        "samples": _largest_first(parts),
    }
    if all("otherwise" in part for part in parts):
        merged |= {name: sum(part[name] for part in parts) for name in ("otherwise", "other_class")}
        merged["bound_ratio"] = bounds.pop()
    if all("largest_ratio" in part for part in parts):
        ratios = [part["largest_ratio"] for part in parts]
        merged["largest_ratio"] = None if None in ratios else max(ratios)
    return merged


def _left_out(evaluations: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Measure -> why, of the first part that says it: what one part lacks all of them lack together."""
    found: dict[str, str] = {}
    for each in reversed(evaluations):
        found |= each["under_load"].get("left_out", {})
    return found


def _largest_first(differing: Sequence[dict[str, Any]]) -> list[int]:
    """The samples of all parts, each of which has its largest difference first: of the first ones the larger first, of
    others, whose differences are not kept, those that are as far up in their parts.
    """

    def of_part(each: dict[str, Any]) -> float:
        ratio = each.get("largest_ratio")  # None: other classes or texts, beyond all numbers
        return math.inf if ratio is None else float(ratio)

    parts = sorted(differing, key=of_part, reverse=True)
    placed = [(place, sample) for each in parts for place, sample in enumerate(each["samples"])]
    return [sample for _, sample in sorted(placed, key=itemgetter(0))]


def _confusion(evaluations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all parts by class, also of classes that only some of them met; {} where a part has none."""
    tables = [each.get("confusion") for each in evaluations]
    if not all(tables):
        return {}
    classes = sorted({number for each in tables if each for number in each["classes"]})
    place = {number: at for at, number in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for each in tables:
        if each:
            at = [place[number] for number in each["classes"]]
            counts[np.ix_(at, at)] += np.array(each["counts"], dtype=np.int64)
    return {"confusion": {"classes": classes, "counts": counts.tolist()}}
