"""Part of ``generate`` and ``evaluate``: the texts that answers of ``evaluate.spans`` are parts of, their reader."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.datasets.questions import Questions
from inferbench_tasks.quality.spans import SpanReader
from inferbench_tasks.requests.ragged import objects, packed, unpacked
from inferbench_tasks.stages.read_as_texts import Texts
from inferbench_tasks.submission.spans import SpansSpec

_PLACES, _SETTINGS = "passages.npz", "passages.json"


def texts_of(dataset: Dataset, ids: NDArray[np.int64], spans: SpansSpec) -> Texts | None:
    """Of the samples with these ids; None where the data set has no questions."""
    if not isinstance(dataset, Questions):
        return None
    places = dataset.passages(ids)
    margin = spans.no_answer_margin if dataset.collection.unanswerable else None
    reader = SpanReader(
        places.offsets, places.contexts, spans.max_answer_tokens, margin, spans.start, spans.end
    )
    facts = {
        "tokens": dataset.length,
        "max_answer_tokens": reader.most,
        "no_answer_margin": margin,
        "cut": int(places.cut.sum()),
    }
    return Texts("spans", reader, facts, "exact_match_ratio", lambda folder: write(folder, reader))


def write(folder: Path, reader: SpanReader) -> None:
    """Beside the samples."""
    contexts = packed({"contexts": objects(list(reader.contexts))})
    write_archive(folder / _PLACES, {**contexts, "offsets": reader.offsets})
    settings = {key: value for key, value in asdict(reader).items() if key not in ("offsets", "contexts")}
    (folder / _SETTINGS).write_text(json.dumps(settings))


def read(folder: Path) -> SpanReader | None:
    """What ``write`` left; None where there is nothing to be read."""
    if not (folder / _SETTINGS).exists():
        return None
    with np.load(folder / _PLACES, allow_pickle=False) as archive:
        arrays = unpacked(archive)
    contexts = [context.decode() for context in arrays["contexts"]]
    return SpanReader(arrays["offsets"], contexts, **json.loads((folder / _SETTINGS).read_text()))
