"""What answers were judged on: only over the same samples do measures of two runs tell of their models.

0.99 on ten easy pictures is no better than 0.9 on ten thousand. A figure of `evaluate` (``Figure.evaluated``) is
therefore ranked, bounded and compared within one data set, by its content, and one number of its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure

#: Below a result: the data set's name, how many samples were asked, and the digest of a named data set's content (the
#: model's own data has none: its name stands for it).
PATHS = (
    "extensions.evaluation.dataset",
    "extensions.evaluation.samples",
    "extensions.evaluation.data.digest",
)
#: What a result says without the block.
NOTHING = "not evaluated"


def words(dataset: Any, samples: Any, digest: Any) -> str:
    """``450 samples of digits (1a2b3c4d)``: equal for the same samples' data."""
    if not dataset:
        return NOTHING
    return f"{samples or 0:,} samples of {dataset}" + (f" ({str(digest)[:8]})" if digest else "")


def of_document(document: Mapping[str, Any]) -> str:
    """Of a result as plain nested mappings."""
    return words(*(value_at(document, path) for path in PATHS))


def data_of(figures: Iterable[Figure], values: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], str]:
    """Which data a row's figures are of: what was judged where any is a measure, else what the model was trained for.

    ``values``: how to get a path's value of a row.
    """
    if any(figure.evaluated for figure in figures):
        parts = [values(path) for path in PATHS]
        return lambda row: words(*(part(row) for part in parts))
    trained_for = values("model.dataset")
    return lambda row: trained_for(row) or ""
