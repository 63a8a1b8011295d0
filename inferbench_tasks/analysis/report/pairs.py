"""Runs that were asked the very same samples, each against the first: in how many only one of both is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.named_classes import NO_CLASS
from inferbench_tasks.quality.bootstrap import FEWEST_SAMPLES
from inferbench_tasks.quality.paired import Paired, paired
from inferbench_tasks.quality.paired_macro_f1 import paired_macro_f1

Table = dict[str, Any]
#: Macro F1 of more samples is not drawn anew for a report.
_MOST_DRAWN = 20_000
_MCNEMAR = (
    "McNemar's exact test on the same samples, corrected for the number of runs (Benjamini and Hochberg)"
)
#: The columns of the file of answers that say what is right: where there are no labels, the source model's answers.
_LABEL, _SOURCE = "label", "answer_source"


@dataclass(frozen=True)
class _Answered:
    """The ids of samples, what is right of each, and the classes that are answered."""

    samples: np.ndarray[Any, Any]
    wanted: np.ndarray[Any, Any]
    answers: np.ndarray[Any, Any]

    @property
    def right(self) -> np.ndarray[Any, Any]:
        # What names no class agrees with nothing, as in ``agreement_ratio``.
        return np.asarray((self.wanted == self.answers) & (self.answers != NO_CLASS))


def tables(views: Sequence[RunView]) -> list[Table]:
    """One of the runs whose samples have labels, one of those without, which are set beside their source model."""
    return [*_against_the_first(views, _LABEL), *_against_the_first(views, _SOURCE)]


def _against_the_first(views: Sequence[RunView], wanted: str) -> list[Table]:
    """Each run against the first of the same samples; p by Benjamini and Hochberg over the table."""
    first, found = None, []
    for view in views:
        answers = _answered(view, wanted)
        if answers is None or not _told(view):
            continue
        if first is None:
            first = (view, answers)
        elif (
            np.array_equal(first[1].samples, answers.samples)
            and np.array_equal(first[1].wanted, answers.wanted)
            and _same_data(first[0], view)
        ):
            found.append((view, answers, paired(first[1].right, answers.right)))
    if first is None or not found:
        return []
    adjusted = false_discovery_control([pair.p_value for _, _, pair in found])
    rows = [_row(view, pair, float(p)) for (view, _, pair), p in zip(found, adjusted, strict=True)]
    if wanted == _SOURCE:
        head = [
            "run", "agrees in it alone", "agrees in the first alone", "agreement, points (95%)", "p", "in words",
        ]  # fmt: skip
        title = f"Against {first[0].label}, agreement with the source model, sample by sample"
        return [{"title": title, "head": head, "rows": rows, "note": f"{_MCNEMAR}; there are no labels."}]
    head = [
        "run", "right in it alone", "right in the first alone", "top-1, points (95%)", "p", "in words",
        "macro F1, points (95%)",
    ]  # fmt: skip
    rows = [[*row, _macro_f1(first[1], answers)] for row, (_, answers, _) in zip(rows, found, strict=True)]
    note = f"{_MCNEMAR}; macro F1 by the bootstrap of the samples, drawn for both runs together."
    title = f"Against {first[0].label}, sample by sample"
    return [{"title": title, "head": head, "rows": rows, "note": note}]


def _told(view: RunView) -> bool:
    """Whether a result says which content of a data set it saw: other files may have the same name and labels."""
    known = view.evaluation.get("data")
    return not known or bool(known.get("digest"))


def _same_data(first: RunView, other: RunView) -> bool:
    """The same content by name and digest; by the digest of the asked samples where both have it, as a model's own data
    has no other. (Results of before have none, nor have parts that are shown as one.)
    """
    one, two = (
        (view.evaluation["dataset"], (view.evaluation.get("data") or {}).get("digest"))
        for view in (first, other)
    )
    asked = {view.evaluation.get("samples_digest") for view in (first, other)} - {None}
    return one == two and len(asked) < 2


def _row(view: RunView, pair: Paired, p_value: float) -> list[str]:
    points, low, high = (100 * value for value in (pair.difference_ratio, pair.low, pair.high))
    word = "no difference can be told"
    if p_value < 0.05:
        word = f"{'gains' if points > 0 else 'loses'} {abs(points):.2f} points"
    return [
        view.label,
        f"{pair.only_second:,}",
        f"{pair.only_first:,}",
        f"{points:+.2f} ({low:+.2f} to {high:+.2f})",
        f"{p_value:.2g}",
        word,
    ]


def _macro_f1(first: _Answered, second: _Answered) -> str:
    """The difference in points, of as many samples as can be drawn in a report's time."""
    count = len(first.wanted)
    if not FEWEST_SAMPLES <= count <= _MOST_DRAWN:
        return "–"

    found = paired_macro_f1(first.wanted, first.answers, second.answers)
    ends = (
        ""
        if found.low is None or found.high is None
        else f" ({100 * found.low:+.2f} to {100 * found.high:+.2f})"
    )
    return f"{100 * found.value:+.2f}{ends}"


def _answered(view: RunView, wanted: str) -> _Answered | None:
    """The classes that are answered, and the ``wanted`` ones; None where some sample has none of one, and of the source
    model's where there are labels.
    """
    table = view.answers() if view.answers else None
    if table is None or not table.num_rows or wanted not in table.column_names:
        return None
    if table.column(wanted).null_count or table.column("answer").null_count:
        return None
    if wanted == _SOURCE and table.column(_LABEL).null_count < table.num_rows:
        return None
    return _Answered(*(table.column(name).to_numpy() for name in ("sample", wanted, "answer")))
