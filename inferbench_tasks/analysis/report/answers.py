"""How right the answers were: tables of runs with an ``evaluate`` block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from inferbench_tasks.analysis.charts.style import MAX_RUNS
from inferbench_tasks.analysis.evaluations import under_load
from inferbench_tasks.analysis.evaluations.by_loadgen import words as words_of_loadgen
from inferbench_tasks.analysis.report import matrices, pairs, varied
from inferbench_tasks.analysis.report.measure_words import HEADS, measure_text
from inferbench_tasks.analysis.report.parts import merged
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.answers import ONE_BY_ONE

Table = dict[str, Any]
#: So many of the surest mistakes are listed for each run.
_MISTAKES = 5


def evaluated(views: Sequence[RunView]) -> list[RunView]:
    """The runs whose answers were judged."""
    return [view for view in views if view.evaluation]


def words(views: Sequence[RunView]) -> str:
    """What was asked, and what an interval is of."""
    # Of parts of one evaluation it says how many samples they have together.
    asked = [view.evaluation for view in merged(evaluated(views)).views]
    if not asked:
        return ""
    sets = ", ".join(dict.fromkeys(f"{e['samples']:,} samples of {e['dataset']}" for e in asked))
    loaded = dict.fromkeys(e.get("scenario") != ONE_BY_ONE for e in asked)
    how = " or ".join(
        "once in the load's own scenario and once alone" if each else "twice alone" for each in loaded
    )
    return (
        f"Each of {sets} was asked {how}. Shares are over all of them; in "
        "brackets their 95% interval, for other samples of the same kind."
    )


def tables(views: Sequence[RunView]) -> list[Table]:
    """The measures of each run, each run against the first on the same samples, what the pre-processing changes, the
    classes, the surest mistakes. The parts of one evaluation are one run."""
    alone = evaluated(views)
    if not alone:
        return []
    found = merged(alone, [view for view in views if not view.evaluation])
    shown = found.views
    by_loadgen = [said for view in alone if (said := words_of_loadgen(view.label, view.evaluation))]
    return [
        *_measures(shown, [*found.notes, *by_loadgen]),
        *pairs.tables(shown),
        *varied.tables(alone),
        *matrices.tables(shown),
        *_mistakes(shown),
    ]


def _measures(views: Sequence[RunView], notes: Sequence[str]) -> list[Table]:
    names = {name for view in views for name in view.evaluation["under_load"].get("measures", {})}
    loaded = any(view.evaluation.get("scenario") != ONE_BY_ONE for view in views)
    ordered = [*(name for name in HEADS if name in names), *sorted(names - HEADS.keys())]
    head = [
        "run",
        *(HEADS.get(name, name) for name in ordered),
        "top-1 one by one" if loaded else "top-1 asked again",
        "answered otherwise under load" if loaded else "answered otherwise when asked again",
    ]
    rows = []
    for view in views:
        document = view.evaluation
        asked, alone = document["under_load"], document["one_by_one"]
        measures = asked.get("measures", {})
        cells = [measure_text(name, measures.get(name)) for name in ordered]
        if "withheld" in asked:
            cells = [asked["withheld"], *cells[1:]] if cells else []
        rows.append(
            [
                view.label,
                *cells,
                measure_text("top1_ratio", alone.get("measures", {}).get("top1_ratio")),
                under_load.words(document),
            ]
        )
    note = " ".join(
        [
            under_load.note([view.evaluation for view in views]),
            *notes,
            *_reasons(views),
            *_ties(views),
            *_data(views),
        ]
    )
    return [{"title": "Right answers", "head": head, "rows": rows, "note": note}]


def _reasons(views: Sequence[RunView]) -> list[str]:
    """Why runs have no accuracy."""
    reasons = {
        view.evaluation["under_load"].get("left_out", {}).get("top1_ratio"): view.label
        for view in reversed(views)
    }
    return [f"{label} has no accuracy: {reason}." for reason, label in reasons.items() if reason]


def _data(views: Sequence[RunView]) -> list[str]:
    """What a reader must know of the data: samples that are left out, and classes in the order of their names."""
    notes: dict[str, None] = {}
    for view in views:
        known = view.evaluation.get("data", {})
        if count := known.get("left_out"):
            first = known["left_out_named"][0]
            notes[f"{count:,} broken samples of {known['name']} are left out (the first: {first})."] = None
        if known.get("class_order") == "sorted names":
            notes[f"Classes of {known['name']} are numbered by their sorted names."] = None
        if splits := known.get("all_splits"):
            notes[
                f"Samples of all splits of {known['name']} were asked ({', '.join(splits)}); evaluate.split asks one."
            ] = None
        if known.get("training"):
            notes[
                f"{known['name']} has images that models are usually trained on: how many are right says little of new "
                "ones."
            ] = None
        if known and not known.get("digest"):
            notes[
                f"{view.label} does not say which content of {known['name']} it saw, so it is not compared sample by "
                "sample; run it again for that."
            ] = None
    return list(notes)


def _ties(views: Sequence[RunView]) -> list[str]:
    """Runs some of whose answers name a class by the order of equal scores."""
    tied = [(view.label, view.evaluation["under_load"].get("tied", 0)) for view in views]
    return [
        f"{label}: {count:,} samples have several largest scores, of which the first class was taken."
        for label, count in tied
        if count
    ]


def _mistakes(views: Sequence[RunView]) -> list[Table]:
    rows = []
    for view in views[:MAX_RUNS]:
        answers = view.answers() if view.answers else None
        rows += [[view.label, *row] for row in _surest(answers)] if answers is not None else []
    head = ["run", "sample", "class", "answer", "score"]
    note = (
        f"Of each run at most {_MISTAKES}, those with the largest scores; all are in its evaluation "
        "(inferbench evaluations show RUN --only wrong)."
    )
    if len(views) > MAX_RUNS:
        note += f" The first {MAX_RUNS} of {len(views)} runs are looked at."
    table = {"title": "Surest mistakes", "head": head, "rows": rows, "numbers": [1, 4], "note": note}
    return [table] if rows else []


def _surest(table: pa.Table) -> list[list[str]]:
    """The wrong answers with the largest scores."""
    columns = {name: table.column(name).to_pylist() for name in ("sample", "label", "answer", "score")}
    wrong = [
        row
        for row in zip(*columns.values(), strict=True)
        if row[1] is not None
        and row[2] is not None
        and row[1] != row[2]
        and row[3] is not None
        and not math.isnan(row[3])
    ]
    wrong.sort(key=lambda row: -row[3])
    return [
        [str(sample), str(label), str(answer), f"{score:.4g}"]
        for sample, label, answer, score in wrong[:_MISTAKES]
    ]
