"""The parts of one evaluation together: what several workers asked side by side, as if one had asked it all.

Nothing is averaged: each measure is made anew of all samples' answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.analysis.evaluations.differing import AUC, PARTS, RANK, SCORES, TOP5
from inferbench_tasks.analysis.evaluations.listed import PART, evaluation_of
from inferbench_tasks.dotted import flatten, value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.quality.base import Answered, Measure, Quality
from inferbench_tasks.quality.intervals import share
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure
from inferbench_tasks.quality.top_k import FIVE
from inferbench_tasks.registry import derived
from inferbench_tasks.submission.digest import LABELS
from inferbench_tasks.submission.part import Part
from inferbench_tasks.submission.schema import JobSpec

#: Measures of the classes that answers name -> what these are set against.
_OF_CLASSES = {"top1_ratio": "label", "macro_f1": "label", "agreement_ratio": "answer_source"}
_NOT_KEPT = "what it needs of each sample is not kept"
#: Of all parts together: 400 MB, and as much again while a class is ranked.
_MOST_SCORES = 50_000_000
#: What has to be the same of all parts beside their jobs: the model as it came and as it was served, data, stack. Not
#: what its weights are called: that follows of its content, and earlier versions called files of users otherwise.
_ALIKE = (
    "model.name", "model.version", "model.source_digest", "model.digest", "format", "backend.kind",
    "backend.version", "extensions.evaluation.dataset", "extensions.evaluation.data.digest",
    "extensions.evaluation.data.version", "extensions.evaluation.scenario", "extensions.evaluation.answers_are",
)  # fmt: skip


def together(parts: Sequence[tuple[ResultDocument, pa.Table]]) -> dict[str, Any]:
    """{runs, verdicts, valid, samples, measures, left_out}: of all parts of one evaluation, each once.

    ``valid``: whether each part counts; else nothing of this does. ``measures``: name -> {value, ci95, method}, over
    the samples of all parts. ``left_out``: name -> why. InputError where the runs are not all parts, of the same, or
    one of them has samples without an answer.
    """
    results = [result for result, _ in parts]
    _require_whole(results)
    table = pa.concat_tables(
        [table.select(_common(parts)) for _, table in parts], promote_options="permissive"
    ).sort_by("sample")
    if len(np.unique(table["sample"].to_numpy())) != table.num_rows:
        raise InputError("a sample stands in two of the parts: they are not of one evaluation", field="RUN")
    measures: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name in _measured(results):
        found = _measure(name, table)
        if isinstance(found, str):
            left_out[name] = found
        else:
            measures[name] = found.as_dict()
    told = [evaluation_of(result).get("under_load") or {} for result in results]
    why = {name: reason for each in told for name, reason in (each.get("left_out") or {}).items()}
    for name in dict.fromkeys(name for each in told for name in each.get("measures") or {}):
        if name not in measures:
            left_out.setdefault(name, why.get(name, "not every part has it"))
    return {
        "runs": [result.run_id for result in results],
        "verdicts": [str(result.verdict) for result in results],
        "valid": all(result.valid for result in results),
        "samples": table.num_rows,
        "measures": measures,
        "left_out": left_out,
    }


def part_of(result: ResultDocument) -> Part:
    """Which part a run asked; InputError of one that asked all."""
    text = value_at(result.model_dump(include={"provenance"}), PART)
    if text is None:
        raise InputError(
            f"{result.run_id} asked all of its samples; `evaluate.part: 1/2` asks a part", field="RUN"
        )
    return Part.read(text)


def _require_whole(results: Sequence[ResultDocument]) -> None:
    evaluations = [evaluation_of(result) for result in results]
    parts = [part_of(result) for result in results]
    first = results[0]
    for result in results[1:]:
        if why := otherwise(first, result):
            raise InputError(f"{result.run_id} is no part of what {first.run_id} is: {why}", field="RUN")
    count = parts[0].of
    if len({part.of for part in parts}) > 1 or sorted(part.number for part in parts) != [
        *range(1, count + 1)
    ]:
        told = ", ".join(str(part) for part in parts)
        raise InputError(f"these are {told}: of {count} parts each has to be there once", field="RUN")
    for result, evaluation in zip(results, evaluations, strict=True):
        if missing := (evaluation.get("under_load") or {}).get("unanswered"):
            raise InputError(
                f"{missing} samples of {result.run_id} have no answer: there is no figure of all", field="RUN"
            )


def otherwise(first: ResultDocument, other: ResultDocument) -> str | None:
    """Why two are no parts of one evaluation; None if they may be."""
    one, two = (result.model_dump() for result in (first, other))
    for path in _ALIKE:
        if (mine := value_at(one, path)) != (its := value_at(two, path)):
            return f"{path} is {its} and not {mine}"
    asked, wanted = (
        flatten(but_for_part(result.provenance.model_dump().get("job") or {})) for result in (other, first)
    )
    # A job of before a field came asked for what is usual.
    usual = JobSpec.newer
    differing = sorted(
        name
        for name in {*asked, *wanted}
        if asked.get(name, usual.get(name)) != wanted.get(name, usual.get(name))
    )
    return f"it was asked otherwise: {', '.join(differing)}" if differing else None


def but_for_part(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a job asks for, whichever part it is of. Blocks count: each repeats the evaluation."""
    asked = {name: value for name, value in job.items() if name not in LABELS or name == "block"}
    evaluate = {name: value for name, value in (asked.get("evaluate") or {}).items() if name != "part"}
    return {**asked, "evaluate": evaluate}


def _common(parts: Sequence[tuple[ResultDocument, pa.Table]]) -> list[str]:
    names = [set(table.column_names) for _, table in parts]
    return [name for name in parts[0][1].column_names if all(name in each for each in names)]


def _measured(results: Sequence[ResultDocument]) -> list[str]:
    """The measures that each part has, in their order."""
    of_each = [(evaluation_of(result).get("under_load") or {}).get("measures") or {} for result in results]
    return [name for name in of_each[0] if all(name in each for each in of_each)]


def _measure(name: str, table: pa.Table) -> Quality | str:
    """Over all samples, or why not: also where it is a package's that can't be used here."""
    try:
        return MEASURES.told(name, partial(_over, name, table))
    except InputError as error:  # the parts' workers may have had it
        return str(error)


def _over(name: str, table: pa.Table, kind: type[Measure]) -> Quality | str:
    measure = derived(kind, Measure)()
    if name in _OF_CLASSES:
        against = _OF_CLASSES[name]
        if table["answer"].null_count or table[against].null_count:
            return "a sample's class is not kept"
        answers, right = (table[column].to_numpy().astype(np.int64) for column in ("answer", against))
        labels = right if against == "label" else None
        source = answers if against == "label" else right
        return measure.of(Answered({"class": answers}, {"class": source}, labels))
    if name == AUC:
        return _auc(measure, table)
    if name == TOP5 and RANK in table.column_names and not table[RANK].null_count:
        return share(int((table[RANK].to_numpy() < FIVE).sum()), table.num_rows)
    if isinstance(measure, TargetMeasure) and (column := f"{PARTS}{name}") in table.column_names:
        return measure.of_parts([np.asarray(row, dtype=np.float64) for row in table[column].to_pylist()])
    return _NOT_KEPT


def _auc(measure: Measure, table: pa.Table) -> Quality | str:
    """Of all samples' scores; a mean of the parts' would rank no sample of one against those of another."""
    if SCORES not in table.column_names:
        return _NOT_KEPT
    column = table[SCORES].combine_chunks()
    if len(column) * column.type.list_size > _MOST_SCORES:
        return f"{len(column):,} samples of {column.type.list_size:,} classes are too many scores to rank at once"
    scores = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    outputs = {SCORES: scores}
    answered = Answered(outputs, outputs, table["label"].to_numpy().astype(np.int64))
    return measure.missing(answered) or measure.of(answered)
