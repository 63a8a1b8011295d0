"""Part of ``generate``: the samples of ``evaluate.vary``, each with one step of the pre-processing changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers import meaning_of
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import MAX_BYTES, Dataset
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.datasets.fit import Fitted, image_settings
from inferbench_tasks.datasets.varied import Recipe, made, recipes
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.monitors.environment import processor
from inferbench_tasks.submission.vary import VarySpec

_FIELD = "evaluate.vary"
_FACTS, _TIMES = "varied.json", "varied_ms.npy"


@dataclass(frozen=True)
class Varied:
    """``changes``: step and what it is changed to, of each variant. ``inputs``: a row for each sample.

    ``inputs_changed``: samples whose input is another than the plain one. ``took_ms``: CPU time of each sample's
    pre-processing, ms; ``plain_ms`` of the plain one. ``processor``: where that was measured.
    """

    changes: list[tuple[str, str | float]]
    inputs_changed: list[int]
    took_ms: NDArray[np.float64]
    plain_ms: NDArray[np.float64]
    processor: str
    folder: Path

    def inputs(self, at: int) -> Arrays:
        """Of the variant with that number; one at a time, as all together are large."""
        with np.load(_file(self.folder, at), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}


def write(
    folder: Path,
    vary: VarySpec,
    dataset: Dataset,
    ids: NDArray[np.int64],
    arrays: Arrays,
    reference: Arrays,
    labels: NDArray[np.int64] | None,
    source: ModelSource,
    model: ModelArtifact,
    watch: Watch,
) -> None:
    """InputError where the samples are no image files, the answers no classes, a variant makes no sense for the model,
    or all variants together are too large.
    """
    if not isinstance(dataset, Fitted) or dataset.collection.form != "pictures":
        scenes = isinstance(dataset, Fitted) and dataset.collection.form == "scenes"
        are = "are seen whole, with their boxes" if scenes else "are no image files"
        raise InputError(
            f"samples of {dataset.name} {are}: there is no {vary.changes[0][0]} to change; take a data "
            "set of image files, or leave vary out",
            field=f"{_FIELD}.{vary.changes[0][0]}",
        )
    if (meaning := meaning_of(model.task, reference, labelled=labels is not None)) != "classes":
        raise InputError(
            f"{model.name} answers {meaning}; what a change of the pre-processing does is told by classes; leave vary "
            "out",
            field=_FIELD,
        )
    chosen = recipes(vary, source, model)
    name, plain = model.inputs[0].name, arrays[model.inputs[0].name]
    if plain.nbytes * (1 + len(chosen)) > MAX_BYTES:
        most = MAX_BYTES // (plain[:1].nbytes * (1 + len(chosen)))
        raise InputError(
            f"{len(plain)} samples and {len(chosen)} variants of each are more than the {MAX_BYTES >> 30} GiB "
            f"that fit; allowed with so many variants: {most} samples",
            field="evaluate.samples",
        )
    files = dataset.collection.rows(ids)
    ways = [Recipe(image_settings(source, model)), *(recipe for _, recipe in chosen)]
    varied = made(files, ways, model.inputs[0].dtype, watch)
    if not np.array_equal(varied.inputs[0], plain):
        raise StageError(
            "the pre-processing did not give the same inputs twice: nothing can be compared with it"
        )
    for at, inputs in enumerate(varied.inputs[1:]):
        write_archive(_file(folder, at), {name: inputs})
    np.save(folder / _TIMES, varied.took_ms, allow_pickle=False)
    facts: dict[str, Any] = {
        "changes": vary.changes,
        "inputs_changed": [_changed(plain, inputs) for inputs in varied.inputs[1:]],
        "processor": processor(),
    }
    (folder / _FACTS).write_text(json.dumps(facts))


def read(folder: Path) -> Varied | None:
    """What ``write`` left there; None where nothing was varied."""
    if not (folder / _FACTS).exists():
        return None
    facts = json.loads((folder / _FACTS).read_text())
    took_ms = np.load(folder / _TIMES, allow_pickle=False)
    changes = [(step, to) for step, to in facts["changes"]]
    return Varied(changes, facts["inputs_changed"], took_ms[1:], took_ms[0], facts["processor"], folder)


def _changed(plain: NDArray[Any], inputs: NDArray[Any]) -> int:
    other: NDArray[np.bool_] = (plain != inputs).reshape(len(plain), -1).any(axis=1)
    return int(other.sum())


def _file(folder: Path, at: int) -> Path:
    return folder / f"varied-{at}.npz"
