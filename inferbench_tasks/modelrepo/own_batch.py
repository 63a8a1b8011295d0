"""Models that were exported for one batch: proof that a changed one answers as the file does, and what is kept for it.

The file as it came stays beside the changed one, and answers the run's own requests, so that both are compared again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import noise_like
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS, Predict
from inferbench_tasks.formats.calls import by_calls
from inferbench_tasks.modelrepo import onnx_file, onnx_proof, proving
from inferbench_tasks.modelrepo.loudness import differs

#: Beside a model whose batch was made free: the file as it came, and its batch.
RECORD = "original.json"


@dataclass(frozen=True)
class Tensors:
    """What a file takes and gives, its batch left out; ``batch``: how many samples each call has, None: any number."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch: int | None


def common_batch(
    shapes: Sequence[tuple[str, Sequence[int | None] | None]], what: str, remedy: str
) -> int | None:
    """The first size that all of these have, None where it is free in all. InputError where there is no such axis."""
    firsts = {name: shape[0] if shape else 0 for name, shape in shapes}
    sizes = set(firsts.values())
    if len(sizes) != 1 or 0 in sizes:
        shown = ", ".join(f"{name} {'[]' if shape is None else list(shape)}" for name, shape in shapes)
        raise InputError(
            f"{what}: its inputs and outputs have no common first axis of samples ({shown}); {remedy}",
            field="model.path",
        )
    return sizes.pop()


def artifact(form: str, path: Path, tensors: Tensors) -> ModelArtifact:
    """A file as a model that can be asked here."""
    return ModelArtifact(
        name=path.stem,
        framework=form,
        format=form,
        path=str(path),
        digest="",
        batch_size=tensors.batch,
        inputs=tensors.inputs,
        outputs=tensors.outputs,
    )


def proof(whole: Predict, freed: Predict, inputs: tuple[TensorSpec, ...], batch: int) -> str | None:
    """None where ``freed`` answers made-up samples as ``whole`` does, ``batch`` in each call; else what differs."""

    def noise(rows: int) -> Arrays:
        rng = np.random.default_rng(0)
        return {spec.name: noise_like(spec, rows, rng) for spec in inputs}

    tolerance_ratio = onnx_proof.TOLERANCE_RATIO
    within = partial(differs, tolerance_ratio=tolerance_ratio)
    return proving.proof(whole, freed, noise, batch, within, tolerance_ratio)


def outcome(tensors: Tensors, reason: str | None, notes: tuple[str, ...] = ()) -> onnx_file.Adapted:
    """Of a file for one batch. ``reason``: why it stays so, None: it was made free; ``notes``: what else was done."""
    assert tensors.batch is not None
    kept = f"the batch of {tensors.batch} can't be made free: {reason}"
    said = (*notes, proving.freed_note(tensors.batch) if reason is None else kept)
    batch = None if reason is None else tensors.batch
    return onnx_file.Adapted(tensors.inputs, tensors.outputs, batch, said)


def keep_original(model: Path, original: Path, batch: int) -> None:
    """Say beside the model which file it was made of."""
    model.with_name(RECORD).write_text(json.dumps({"file": original.name, "batch": batch}))


def original(model: ModelArtifact) -> Predict | None:
    """The answers of the file as it came, where its batch was made free; None for others."""
    path = Path(model.path)
    if model.format == "onnx":
        return onnx_file.original(path)
    record = path.with_name(RECORD)
    if not record.is_file():
        return None
    facts = json.loads(record.read_text())
    batch = int(facts["batch"])
    update = {"path": str(path.with_name(facts["file"])), "batch_size": batch}
    predict = FORMATS.load(model.format)().open(model.model_copy(update=update))

    def answer(arrays: Arrays) -> Arrays:
        return by_calls(predict, arrays, batch)

    return answer
