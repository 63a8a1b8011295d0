"""What answers were judged on: only over the same samples do measures of two runs tell of their models.

0.99 on ten easy pictures is no better than 0.9 on ten thousand. A figure of `evaluate` (``Figure.evaluated``) is
therefore ranked, bounded and compared within one data set, by its content, and the very samples of it that were asked.
Results of before ``samples_digest`` tell these by the load's seed, by which they were drawn where only some were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.perfdb.documents import ResultDocument

#: Below a result: the data set's name, how many samples were asked, and the digest of a named data set's content (the
#: model's own data has none).
DATA_PATHS = (
    "extensions.evaluation.dataset",
    "extensions.evaluation.samples",
    "extensions.evaluation.data.digest",
)
#: Of content and asked samples together, a named data set's own where all were asked (``stages.evaluated``); how many
#: the job wanted, None: all; and the seed by which these were drawn.
_DIGEST, _WANTED, _SEED = (
    "extensions.evaluation.samples_digest",
    "provenance.job.evaluate.samples",
    "load.seed",
)
#: Of how many parts it is, where it is all of them together.
_WHOLE = "extensions.evaluation.parts"
PATHS = (*DATA_PATHS, _DIGEST, _WANTED, _SEED)
_PARTS = {path.partition(".")[0] for path in PATHS}
#: Which model's own data they are: as it came, before it was converted.
_MODEL = ("model.name", "model.version", "model.source_digest")
#: What a result says without the block.
NOTHING = "not evaluated"


def words(dataset: Any, samples: Any, digest: Any, samples_digest: Any, wanted: Any, seed: Any) -> str:
    """``450 samples of digits (1a2b3c4d)``: equal for the same samples of the same data.

    ``20 samples of digits (1a2b3c4d, samples 5e6f7a8b)`` where only some were asked; of results of before
    ``samples_digest`` ``20 samples of digits (1a2b3c4d, drawn by seed 7)``.
    """
    if not dataset:
        return NOTHING
    which = [str(digest)[:8]] if digest else []
    if samples_digest and samples_digest != digest:
        which.append(f"samples {str(samples_digest)[:8]}")
    elif not samples_digest and wanted is not None:
        which.append(f"drawn by seed {seed}")
    return f"{samples or 0:,} samples of {dataset}" + (f" ({', '.join(which)})" if which else "")


def query(dataset: Any, samples: Any, digest: Any, samples_digest: Any, wanted: Any, seed: Any) -> str:
    """The terms of a query that pick the results of the same words."""
    terms = {path: value for path, value in zip(DATA_PATHS, (dataset, samples, digest), strict=True) if value}
    if samples_digest and samples_digest != digest:
        terms[_DIGEST] = samples_digest
    elif not samples_digest and (wanted is not None or not digest):
        terms[_DIGEST] = "none"
        if wanted is not None:
            terms[_SEED] = seed
    return " ".join(f"{path}={value}" for path, value in terms.items())


def of_document(document: Mapping[str, Any]) -> str:
    """Of a result as plain nested mappings."""
    return words(*(value_at(document, path) for path in PATHS))


def of_result(result: ResultDocument) -> str:
    """Of a result."""
    return of_document(result.model_dump(include=_PARTS))


def other_samples(first: ResultDocument, other: ResultDocument) -> str | None:
    """That both were asked some samples of the same data, as many but not the same, with the seeds that drew them."""
    one, two = (run.model_dump(include=_PARTS) for run in (first, other))
    seeds = value_at(one, _SEED), value_at(two, _SEED)
    drawn = all(value_at(run, _WANTED) is not None for run in (one, two))
    same_data = all(value_at(one, path) == value_at(two, path) for path in DATA_PATHS)
    if not drawn or not same_data or seeds[0] == seeds[1] or of_document(one) == of_document(two):
        return None
    return f"other samples (load.seed {seeds[1]}, not {seeds[0]})"


def same_samples(first: ResultDocument, other: ResultDocument, labelled: bool) -> bool:
    """Whether two were asked the very same samples: by their words.

    Of the parts of an evaluation of a model's own data together nobody has the digest of what was asked. Then two of
    three have to tell: the words, that each sample has a label (``labelled``; whether these are the same is for the
    caller), and that both are of one version of one model, with one seed, and as many samples of its own data.
    """
    one, two = (run.model_dump(include={*_PARTS, "model"}) for run in (first, other))
    same_words = of_document(one) == of_document(two)
    if not (_unknown(one) or _unknown(two)):
        return same_words
    own = all(value_at(run, DATA_PATHS[-1]) is None for run in (one, two))
    alike = own and all(value_at(one, path) == value_at(two, path) for path in (*DATA_PATHS, _SEED, *_MODEL))
    return same_words + labelled + alike >= 2


def samples_unknown(first: ResultDocument, other: ResultDocument) -> bool:
    """Whether two were asked as many samples of data of one name, and nobody has the digest of these, see
    ``same_samples``."""
    one, two = (run.model_dump(include=_PARTS) for run in (first, other))
    same_data = all(value_at(one, path) == value_at(two, path) for path in DATA_PATHS)
    return same_data and (_unknown(one) or _unknown(two))


def _unknown(document: Mapping[str, Any]) -> bool:
    return value_at(document, _WHOLE) is not None and value_at(document, _DIGEST) is None


def data_of(figures: Iterable[Figure], values: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], str]:
    """Which data a row's figures are of: what was judged where any is a measure, else what the model was trained for.

    ``values``: how to get a path's value of a row.
    """
    if any(figure.evaluated for figure in figures):
        parts = [values(path) for path in PATHS]
        return lambda row: words(*(part(row) for part in parts))
    trained_for = values("model.dataset")
    return lambda row: trained_for(row) or ""
