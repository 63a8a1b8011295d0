"""The parts of one evaluation as the result that one run of all its samples would have: what lists, reports and pairs
show in their place.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.analysis.evaluations.listed import evaluation_of
from inferbench_tasks.analysis.evaluations.together import part_of, together
from inferbench_tasks.analysis.evaluations.under_load import bound_of
from inferbench_tasks.contracts.verdict import KINDS, Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.intervals import share


@dataclass(frozen=True)
class Whole:
    """``result``: the first part's with the evaluation of all (``parts``: how many) and the verdict of all; its figures
    of speed are those of the first part, for each part has a load of its own. ``table``: all samples. ``left_out``:
    measure -> why all together have none.
    """

    result: ResultDocument
    table: pa.Table
    left_out: dict[str, str]


def whole_of(parts: Sequence[tuple[ResultDocument, pa.Table]]) -> Whole:
    """Of all parts, in any order; InputError where they are not all, or not of one evaluation."""
    results, tables = [result for result, _ in parts], [table for _, table in parts]
    document = together(parts)
    names = [name for name in tables[0].column_names if all(name in each.column_names for each in tables)]
    table = pa.concat_tables([each.select(names) for each in tables], promote_options="permissive").sort_by(
        "sample"
    )
    evaluations = [evaluation_of(result) for result in results]
    first = evaluations[0]
    evaluation = {
        **{name: first[name] for name in _OF_ALL if name in first},
        "parts": len(parts),
        "samples": document["samples"],
        "samples_digest": _samples_digest(results[0], table),
        "under_load": {
            "unanswered": 0,
            "failures": {},
            "tied": sum(each["under_load"].get("tied", 0) for each in evaluations),
            "measures": document["measures"],
            "left_out": {**left_out(evaluations), **document["left_out"]},
        },
        "one_by_one": {"measures": _alone(table)},
        "differing": _differing(evaluations),
        **_confusion(evaluations),
    }
    whole = results[0].model_copy(
        update={
            "extensions": {**results[0].extensions, "evaluation": evaluation},
            "verdict": verdict_of(results),
        }
    )
    return Whole(whole, table, document["left_out"])


def verdict_of(parts: Sequence[ResultDocument]) -> Verdict:
    """The worst of the parts' own, with its reasons and the part that each is of."""
    kind = max((part.verdict.kind for part in parts), key=KINDS.index)
    reasons = [
        reason.model_copy(update={"text": f"part {part_of(part)}{f': {reason.text}' if reason.text else ''}"})
        for part in parts
        if part.verdict.kind == kind
        for reason in part.verdict.reasons
    ]
    return Verdict(kind=kind, reasons=tuple(reasons))


def _samples_digest(result: ResultDocument, table: pa.Table) -> str | None:
    """As one run of these samples has it (``stages.evaluated``); None of a model's own data, whose content only the
    digests of its parts are of."""
    data = evaluation_of(result).get("data") or {}
    content: str | None = data.get("digest")
    if content is None or table.num_rows == data.get("samples"):
        return content
    ids = table["sample"].to_numpy().astype("<i8")
    return hashlib.sha256(content.encode() + ids.tobytes()).hexdigest()


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


def left_out(evaluations: Sequence[dict[str, Any]]) -> dict[str, str]:
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
