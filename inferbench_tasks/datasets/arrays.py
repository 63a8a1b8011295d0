"""``arrays``: an ``.npz`` with an array for each input of the model, and ``labels``."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.dataset import MAX_BYTES
from inferbench_tasks.contracts.targets import PREFIX, TARGETS
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.errors import InputError

LABELS = "labels"
_FIELD = "evaluate.path"
#: What numpy and zipfile raise of a file that is broken, encrypted, or claims more than there is.
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error, MemoryError, OverflowError, RuntimeError,
)  # fmt: skip


class ArrayFile(DataSource):
    """Tensors as the model takes them; nothing is resized or normalised."""

    title = "Your .npz: an array for each input of the model, first axis = samples, and labels or targets"
    origin = "yours"
    licence = "yours"
    form = "tensors"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        if path.suffix.lower() != ".npz" or not path.is_file():
            raise InputError(f"{path.name} is no .npz", field=_FIELD)
        try:
            with ZipFile(path) as archive:
                unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > MAX_BYTES:
                raise InputError(
                    f"{path.name} unpacks to {unpacked:,} bytes, allowed: {MAX_BYTES:,}", field=_FIELD
                )
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                given = {name: arrays[name] for name in arrays.files}
        except _UNREADABLE as error:
            raise InputError(f"{path.name} can't be read: {error}", field=_FIELD) from error
        if others := sorted(name for name, array in given.items() if not isinstance(array, np.ndarray)):
            raise InputError(f"{path.name} has members that are no arrays: {', '.join(others)}", field=_FIELD)
        labels = given.pop(LABELS, None)
        # Any other name is an input's, also one that begins like these.
        targets = {
            name: given.pop(name)
            for name in list(given)
            if name.removeprefix(PREFIX) in TARGETS and name.startswith(PREFIX)
        }
        if (labels is None and not targets) or not given:
            needed = f"{LABELS} (or {', '.join(PREFIX + kind for kind in TARGETS)})"
            raise InputError(f"{path.name} needs {needed} and an array for each input", field=_FIELD)
        judged = {**targets, **({} if labels is None else {LABELS: labels})}
        counts = {name: len(array) if array.ndim else 0 for name, array in {**given, **judged}.items()}
        if len(set(counts.values())) != 1 or not min(counts.values()):
            raise InputError(f"{path.name}: as many samples in each, at least one: {counts}", field=_FIELD)
        ids = None if labels is None else _ids(labels, path.name)
        return Collection(
            path.stem, "tensors", next(iter(counts.values())), lambda rows: {n: a[rows] for n, a in given.items()}, ids,
            targets={name.removeprefix(PREFIX): array for name, array in targets.items()},
        )  # fmt: skip


def _ids(labels: NDArray[Any], name: str) -> NDArray[np.int64]:
    """A class for each sample; InputError for anything else."""
    flat = labels.reshape(len(labels), -1)
    if flat.shape[1] != 1 or flat.dtype.kind not in "iu":
        raise InputError(
            f"{name}: {LABELS} must be a whole number for each sample, not {labels.dtype} of shape "
            f"{labels.shape}",
            field=_FIELD,
        )
    ids: NDArray[np.int64] = flat[:, 0].astype(np.int64)
    if len(wrong := np.flatnonzero(ids < 0)):
        raise InputError(f"{name}: the label of sample {wrong[0]} is {ids[wrong[0]]}", field=_FIELD)
    return ids
