"""Part of ``generate`` and ``evaluate``: in which ways answers are read as texts, where the outputs are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.stages import characters, passages
from inferbench_tasks.stages.read_as_texts import Texts
from inferbench_tasks.submission.spans import SpansSpec

if TYPE_CHECKING:
    from inferbench_tasks.stages.answers_judged import Reader


def texts_of(dataset: Dataset, ids: NDArray[np.int64], spans: SpansSpec, *, processed: bool) -> Texts | None:
    """How answers to the samples with these ids are read; None where they are no texts. ``processed``: the submission
    has processors of its own for the answers, which characters are left to."""
    return passages.texts_of(dataset, ids, spans) or (None if processed else characters.texts_of(dataset))


def reader_in(folder: Path) -> Reader | None:
    """What ``Texts.write`` left in the samples' folder; None where there is nothing to be read."""
    return passages.read(folder) or characters.read(folder)
