"""How many samples an evaluation asks and how large each is, before its model is made and its data is opened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.datasets.base import DATASETS, unknown_split, usual_split
from inferbench_tasks.datasets.described import description_of
from inferbench_tasks.datasets.fit import image_shape
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.registered import RegisteredSource
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.evaluation import EvaluateSpec
from inferbench_tasks.submission.schema import JobSpec

_FIELD = "evaluate.parts"
_NUMBER = "give a number of parts; where one does not fit, the run says at its beginning how many would do"


def samples_to_ask(spec: JobBase, base_dir: Path) -> tuple[int, int]:
    """Of all parts together, and the bytes of one sample as the model takes it; InputError where that is not known."""
    assert isinstance(spec, JobSpec) and spec.evaluate is not None
    source = resolve(spec.model, base_dir)
    counts = (_count(source, spec.evaluate, base_dir), spec.evaluate.samples)
    known = [count for count in counts if count is not None]
    if not known:
        raise InputError(
            f"auto can't be told: how many samples {spec.evaluate.dataset or 'the model'} has is known once they are "
            f"read; {_NUMBER}",
            field=_FIELD,
        )
    return min(known), _sample_bytes(source)


def _count(source: ModelSource, evaluate: EvaluateSpec, base_dir: Path) -> int | None:
    """How many samples there are; None where only reading them tells."""
    if evaluate.dataset is None:
        own = source.dataset() or source.made_up()
        return None if own is None else len(own)
    data = DATASETS.load(evaluate.dataset, "evaluate.dataset")()
    if evaluate.path is not None:
        path = safe_files.inside(base_dir, evaluate.path, "evaluate.path")
        if evaluate.split and (problem := unknown_split(evaluate.dataset, data, path, evaluate.split)):
            raise InputError(problem, field="evaluate.split")
        return data.count(path, evaluate.split)
    described = description_of(type(data))
    return described.splits.get(evaluate.split or usual_split(data) or "") if described is not None else None


def _sample_bytes(source: ModelSource) -> int:
    total = 0
    for spec in _inputs(source):
        shape = image_shape(source, spec)
        try:
            size = np.dtype(spec.dtype).itemsize
        except TypeError:
            size = 0
        if -1 in shape or not size:
            raise InputError(
                f"auto can't be told: the model's input {spec.name} {spec.dtype}{list(shape)} has no one size; "
                f"{_NUMBER}",
                field=_FIELD,
            )
        total += math.prod(shape) * size
    return total


def _inputs(source: ModelSource) -> Sequence[TensorSpec]:
    if isinstance(source, RegisteredSource):
        return source.card.inputs
    if isinstance(source, FileSource) and source.format == "onnx":
        safe_files.check_size(source.path)
        return safe_files.onnx_inputs(source.path)
    if (signature := source.signature()) is None:
        raise InputError(
            f"auto can't be told: what {source.name} takes is known once it is made; {_NUMBER}", field=_FIELD
        )
    return signature[0]
