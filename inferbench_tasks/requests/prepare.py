"""The samples that a run's requests carry: seeded, distinct, with the source model's own answers.

Distinct, so that a cache in a server can't help (MLPerf's TEST04 asks the same): equal samples are
found by their bytes and left out.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers import classes_scored
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import MAX_BYTES, Dataset, fewest_parts
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.formats.calls import by_calls, joined
from inferbench_tasks.requests.ragged import is_ragged, objects, packed, rows_of, sample_shape, unpacked
from inferbench_tasks.requests.sized import sized_noise
from inferbench_tasks.submission.part import MOST_PARTS, Part
from inferbench_tasks.submission.schema import RequestsSpec

log = logging.getLogger(__name__)

#: Samples that the source is asked for at once.
ROWS = 16
_SEED_OF_SELECTION = 0x5EED


def sample(
    spec: RequestsSpec, source: ModelSource, model: ModelArtifact, dataset: Dataset | None, seed: int
) -> tuple[Arrays, NDArray[np.int64] | None]:
    """The inputs and, where known, the labels of ``spec.samples`` distinct samples."""
    rng = np.random.default_rng([_SEED_OF_SELECTION, seed])
    if spec.sizes is not None:
        arrays, labels = sized_noise(spec.sizes, source, model, spec.samples, rng), None
    elif dataset is None:
        refuse_too_much(source.noise(model.inputs, 1, rng), spec.samples)
        arrays, labels = source.noise(model.inputs, spec.samples, rng), None
    else:
        if spec.samples > len(dataset) and spec.kind == "dataset":
            raise InputError(
                f"{spec.samples} are asked for, {dataset.name} has {len(dataset)} held-out samples",
                field="requests.samples",
            )
        indices = rng.permutation(len(dataset))[: spec.samples]
        refuse_too_much(dataset.inputs(indices[:1]), len(indices))
        arrays = dataset.inputs(indices)
        known = dataset.labels()
        labels = None if known is None else known[indices]
    keep = distinct(arrays)
    total = len(next(iter(arrays.values())))
    if len(keep) < total:
        log.warning("equal samples are left out count=%d of=%d", total - len(keep), total)
        arrays = {name: array[keep] for name, array in arrays.items()}
        labels = None if labels is None else labels[keep]
    return arrays, labels


def every(
    dataset: Dataset, count: int | None, seed: int, part: Part | None = None
) -> tuple[Arrays, NDArray[np.int64] | None, NDArray[np.int64]]:
    """All held-out samples in their order, or ``count`` of them by chance, or a ``part`` of these: inputs, labels, and
    which they are.

    Samples that equal each other stay: a data set's accuracy is over all of it. InputError for more than there are.
    """
    if count is not None and count > len(dataset):
        raise InputError(
            f"{count} are asked for, {dataset.name} has {len(dataset)} held-out samples",
            field="evaluate.samples",
        )
    rng = np.random.default_rng([_SEED_OF_SELECTION, seed])
    which = np.sort(rng.permutation(len(dataset))[:count]) if count else np.arange(len(dataset))
    total = len(which)
    if part is not None:
        if part.of > len(which):
            raise InputError(
                f"{part.of} parts of {len(which)} samples: some would have none", field="evaluate.part"
            )
        which = part.of_rows(which)
    indices = which.astype(np.int64)
    refuse_too_much(dataset.inputs(indices[:1]), len(indices), "evaluate.samples", of=total)
    labels = dataset.labels()
    return dataset.inputs(indices), None if labels is None else labels[indices], indices


def usable_labels(
    labels: NDArray[np.int64] | None, model: ModelArtifact, field: str
) -> NDArray[np.int64] | None:
    """The labels, None where the model's answers are never set against any (``accuracy_reason``).

    InputError where one is no class of the model: it could never be right, and the share would be of something else.
    """
    if labels is None or model.accuracy_reason is not None:
        return None
    classes = classes_scored(model.outputs)
    wrong = np.flatnonzero((labels < 0) | (labels >= classes)) if classes else np.flatnonzero(labels < 0)
    if len(wrong):
        raise InputError(
            f"{len(wrong)} of {len(labels)} labels are no class of the model {model.name}, which has "
            f"{classes or 'classes'} from 0 on; the first is {int(labels[wrong[0]])} of sample {int(wrong[0])}",
            field=field,
        )
    return labels


def distinct(arrays: Arrays) -> NDArray[np.int64]:
    """The indices of the samples that equal none before them, in order."""
    first: dict[bytes, int] = {}
    for index in range(len(next(iter(arrays.values())))):
        row = b"\0".join(bytes_of(array[index]) for array in arrays.values())
        first.setdefault(row, index)
    return np.fromiter(first.values(), dtype=np.int64)


def bytes_of(row: Any) -> bytes:
    """A sample, or what is right of it, as bytes: equal for equal ones."""
    array = np.asarray(row)
    return repr(array.tolist()).encode() if array.dtype.kind in "OSU" else array.tobytes()


def refuse_too_much(
    one: Arrays, count: int, field: str = "requests.samples", *, of: int | None = None
) -> None:
    """InputError where so many samples like this one are more than fit.

    ``of``: how many are to be evaluated, of which these are all or a part: then in how many parts they fit.
    """
    size = sum(array.nbytes for array in one.values())
    if size * count > MAX_BYTES:
        parts = None if of is None else fewest_parts(of, size, MAX_BYTES)
        asked = (
            ""
            if parts is None or parts > MOST_PARTS
            else f"; all {of:,} fit in parts (evaluate.parts: {parts})"
        )
        raise InputError(
            f"{count} samples of {size} bytes are more than the {MAX_BYTES >> 30} GiB that "
            f"fit; allowed for this model: {MAX_BYTES // size}{asked}",
            field=field,
        )


def answers(predict: Predict, arrays: Arrays, watch: Watch, batch_size: int | None = None) -> Arrays:
    """The source model's answers to all samples; ``batch_size``: what each call of it takes, None: any number.

    StageError where it answers NaN, InputError where its answers have no batch axis or not one shape.
    """
    count = len(next(iter(arrays.values())))
    parts: list[Arrays] = []
    ragged = any(is_ragged(array) for array in arrays.values())
    rows = 1 if ragged else ROWS
    for start in range(0, count, rows):
        watch.step(start, count, "the source model answers the requests")
        part = {name: rows_of(a, range(start, min(start + rows, count))) for name, a in arrays.items()}
        parts.append(by_calls(predict, part, batch_size) if batch_size else predict(part))
    outputs = _each(parts) if ragged else joined(parts)
    for name, array in outputs.items():
        if len(array) != count:
            raise InputError(f"Output {name} gives {len(array)} rows for {count} samples; one each is needed")
        if is_ragged(array):
            _refuse_nan(name, array)
            continue
        if array.dtype.kind == "f" and np.isnan(array).any():
            rows_bad = int(np.isnan(array).reshape(count, -1).any(axis=1).sum())
            if nan_inputs := [n for n, a in arrays.items() if a.dtype.kind == "f" and np.isnan(a).any()]:
                raise StageError(
                    f"The requests themselves have NaN in input {', '.join(nan_inputs)}, and the source model "
                    f"answers NaN in output {name} for {rows_bad} of {count} samples; send samples without NaN"
                )
            raise StageError(
                f"The source model itself answers NaN in output {name} for {rows_bad} of {count} samples; "
                f"nothing that is measured with it would mean anything. Try other requests, or mend the model"
            )
    return outputs


def _each(parts: list[Arrays]) -> Arrays:
    """Answers to samples of different shapes, a tensor for each, whether or not their own shapes differ."""
    for name in parts[0]:
        if any(part[name].ndim == 0 or len(part[name]) != 1 for part in parts):
            raise InputError(f"Output {name} has no batch axis; one row for a sample is needed")
        if parts[0][name].dtype.kind not in "biuf":
            raise InputError(f"Output {name} is text: give requests of one size", field="requests.sizes")
    return {name: objects([part[name][0] for part in parts]) for name in parts[0]}


def _refuse_nan(name: str, array: Any) -> None:
    for index, item in enumerate(array):
        if item.dtype.kind == "f" and np.isnan(item).any():
            raise StageError(
                f"The source model itself answers NaN in output {name} to sample {index} of shape {list(item.shape)}; "
                f"nothing that is measured with it would mean anything. Give other sizes, or mend the model"
            )


def write(folder: Path, arrays: Arrays, reference: Arrays, labels: NDArray[np.int64] | None) -> None:
    """``requests.npz``, ``reference.npz`` and ``labels.npy`` (where there are labels)."""
    write_archive(folder / "requests.npz", _storable(arrays))
    write_archive(folder / "reference.npz", _storable(reference))
    if labels is not None:
        np.save(folder / "labels.npy", labels.astype(np.int64), allow_pickle=False)


def shapes(arrays: Arrays) -> dict[str, list[int]]:
    """What one sample of each input is shaped like; -1 where samples differ."""
    return {name: list(sample_shape(array)) for name, array in arrays.items()}


def stored(folder: Path) -> Arrays:
    """The tensors that ``write`` has left in a folder."""
    with np.load(folder / "requests.npz", allow_pickle=False) as archive:
        return unpacked(archive)


def _storable(arrays: Arrays) -> Arrays:
    """Text as fixed-width arrays, samples of different shapes one after the other: objects would have to be pickled."""
    plain = {
        n: a.astype(np.str_) if a.dtype.kind == "O" and not is_ragged(a) else a for n, a in arrays.items()
    }
    return packed(plain)
