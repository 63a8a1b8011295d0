"""Part of ``evaluate``: what was answered to each sample, as the file of answers has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.analysis.evaluations.differing import AUC, SCORES
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.columns import numbers, rows_of_numbers, texts
from inferbench_tasks.quality.base import Answered, decisions, scores_of
from inferbench_tasks.quality.judge import seen_by
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure
from inferbench_tasks.quality.top_k import label_ranks
from inferbench_tasks.stages.answers_judged import Reader, processed_by

if TYPE_CHECKING:
    from inferbench_tasks.contracts.answers import Meaning
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.quality.named_classes import ClassReader
    from inferbench_tasks.stages.asked import Asked

#: Of all classes' scores a part of an evaluation keeps so many at most.
MOST_SCORES = 2_000_000


def table_of(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    meaning: Meaning = "classes",
    device: str | None = None,
) -> pa.Table:
    """A row for each sample, null where there is none of something.

    ``sample``: its place in the data set. ``label``. ``answer``, ``score``, ``latency_ms``: the class that is named
    under load, the largest score, how long its request took. ``label_rank``: how many classes' scores go before the
    label's. ``answer_one_by_one``, ``answer_source``: the class. Answers that are no classes stand in none of these
    columns. ``device``: the product that answered; null where it is not known which of several did.
    """

    def named(outputs: Arrays, there: NDArray[np.bool_]) -> pa.Array:
        if not outputs or meaning != "classes":
            return pa.nulls(len(ids), pa.int64())
        return numbers(decisions(outputs, source), there)

    classes = meaning == "classes" and under_load.outputs
    scores = scores_of(under_load.outputs, source) if classes else None
    everywhere = np.ones(len(ids), dtype=bool)
    return pa.table(
        {
            "sample": numbers(ids),
            "label": pa.nulls(len(ids), pa.int64()) if labels is None else numbers(labels),
            "answer": named(under_load.outputs, under_load.answered),
            "score": pa.nulls(len(ids), pa.float64())
            if scores is None
            else numbers(scores.max(axis=1), under_load.answered),
            "answer_one_by_one": named(alone.outputs, alone.answered),
            "answer_source": named(source, everywhere),
            "latency_ms": numbers(under_load.latency_ms, under_load.answered),
            "label_rank": pa.nulls(len(ids), pa.int64())
            if scores is None or labels is None
            else numbers(label_ranks(scores, labels), under_load.answered),
            "device": pa.nulls(len(ids), pa.string()) if device is None else texts([device] * len(ids)),
        }
    )


def with_parts(
    table: pa.Table,
    outputs: Arrays,
    source: Arrays,
    targets: Arrays,
    measures: Mapping[str, Any],
    reader: Reader | None = None,
    after: Pipeline | None = None,
    classes: ClassReader | None = None,
    *,
    part: bool = False,
) -> pa.Table:
    """The table with a column ``parts_NAME`` of each measure against targets: what the figure needs of each sample; and
    ``answer_text``, where answers are read out of the outputs. Of a ``part`` of an evaluation ``scores``, too, for AUC,
    of which no sample has a share."""
    texts = reader(outputs) if reader is not None else None
    if texts is not None and not isinstance(texts, str):
        table = table.append_column("answer_text", pa.array(texts.tolist(), pa.string()))
    answered = Answered(outputs, source, targets=targets, texts=texts, processed=processed_by(after, outputs))
    named = classes(outputs) if classes is not None else outputs
    scores = scores_of(named, source) if part and AUC in measures else None
    if scores is not None and scores.size <= MOST_SCORES:
        table = table.append_column(SCORES, rows_of_numbers(scores))
    for name in measures:
        measure = MEASURES.load(name)()
        seen = seen_by(measure, answered)
        if isinstance(measure, TargetMeasure) and not isinstance(seen, str):
            parts = [part.tolist() for part in measure.parts(seen)]
            table = table.append_column(f"parts_{name}", pa.array(parts, pa.list_(pa.float64())))
    return table
