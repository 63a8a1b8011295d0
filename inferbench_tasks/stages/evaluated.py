"""Part of ``generate``: the samples that ``evaluate`` asks, with the source model's answers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.requests import prepare
from inferbench_tasks.stages.base import StageInput

#: Which samples of the data set they are, beside the requests' files.
IDS_FILE = "ids.npy"


def make(
    folder: Path, inp: StageInput, source: ModelSource, model: ModelArtifact, watch: Watch
) -> dict[str, Any]:
    """Write samples, answers, labels and ids; the facts of the cache's entry. InputError without a data set."""
    assert inp.job.evaluate is not None
    dataset = source.dataset()
    if dataset is None:
        raise InputError(
            f"The model {model.name} comes with no data set to be evaluated on; leave evaluate out",
            field="evaluate",
        )
    arrays, labels, ids = prepare.every(dataset, inp.job.evaluate.samples, inp.job.load.seed)
    labels = prepare.usable_labels(labels, model, "evaluate")
    reference = prepare.answers(FORMATS.load(model.format)().open(model), arrays, watch, model.batch_size)
    prepare.write(folder, arrays, reference, labels)
    np.save(folder / IDS_FILE, ids, allow_pickle=False)
    return {"samples": len(ids), "labelled": labels is not None, "dataset": dataset.name}
