"""A data set's samples as one hash, and whether they are those that its manifest is of."""

from __future__ import annotations

import hashlib
import io
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import description_of
from inferbench_tasks.errors import InputError

#: Part of what is hashed; raised when what is hashed of a sample changes.
FORM = "inferbench-samples-1"
#: So many are had at a time.
_ROWS = 256


def samples_sha256(source: DataSource, collection: Collection) -> str:
    """SHA-256 over every sample in its order, the names of the classes, and what is right of each sample.

    Of pictures their pixels, for one picture can be packed in many ways, and of other samples what their source says
    (``DataSource.hashed``).
    """
    digest = hashlib.sha256()
    _add(digest, FORM, collection.form, collection.count, *collection.classes)
    packed = collection.form in ("pictures", "scenes")
    for start in range(0, collection.count, _ROWS):
        indices = np.arange(start, min(start + _ROWS, collection.count))
        for index, sample in zip(indices.tolist(), _each(collection.rows(indices)), strict=True):
            _add(digest, *_parts(_pixels(sample) if packed else source.hashed(index, sample)))
    if collection.labels is not None:
        _add(digest, "labels", *_parts(collection.labels))
    for kind, targets in sorted(collection.targets.items()):
        _add(digest, kind, *_parts(targets))
    return digest.hexdigest()


def require_unchanged(name: str, source: DataSource, collection: Collection) -> None:
    """InputError where the samples are others than the manifest's of that version; nothing of one without."""
    described = description_of(type(source))
    if described is None:
        return
    split = collection.split or ""
    wanted = described.samples_sha256 if collection.usual else described.split_sha256.get(split)
    if wanted is None:  # a package that has no hash of that split
        return
    if (there := samples_sha256(source, collection)) == wanted:
        return
    files = [f"{file} (SHA-256 {sha256[:12]})" for file, sha256 in described.files.items()]
    theirs = ", ".join([*files, *(f"{library} {made}" for library, made in described.made_with.items())])
    here = ", ".join(dict.fromkeys([source.version(), *_installed(described.made_with)]))
    made_with = (
        f"Those were made with {theirs}; these with {here}" if theirs else f"These were made with {here}"
    )
    raise InputError(
        f"the data set {name} has other samples here (SHA-256 {there[:12]}) than its manifest "
        f"{name}@{described.version} says ({wanted[:12]}). {made_with}. A version never changes: "
        "install what those were made with, or leave this data set out",
        field="evaluate.dataset",
    )


def _installed(libraries: Iterable[str]) -> Iterator[str]:
    """Each with the version that is here."""
    for library in libraries:
        try:
            here = platform.python_version() if library == "python" else version(library)
        except PackageNotFoundError:
            here = "not installed"
        yield f"{library} {here}"


def _each(rows: Any) -> Iterator[Any]:
    if not isinstance(rows, dict):
        yield from rows
        return
    for at in range(len(next(iter(rows.values())))):
        yield {name: array[at] for name, array in rows.items()}


def _parts(sample: Any) -> Iterator[Any]:
    """A sample as what ``_add`` takes: of tensors their names, of arrays also type and shape."""
    if isinstance(sample, dict):
        for name, array in sorted(sample.items()):
            yield name
            yield from _parts(array)
    elif isinstance(sample, np.ndarray):
        yield f"{sample.dtype.name} {sample.shape}"
        yield _plain(sample)
    elif isinstance(sample, tuple):
        yield from sample
    else:
        yield sample


def _plain(array: NDArray[Any]) -> bytes:
    if array.dtype.kind in "OSU":
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _pixels(data: bytes) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return f"{image.mode} {image.size} ".encode() + image.tobytes()


def _add(digest: Any, *parts: Any) -> None:
    """Each with its length, so that no two ways of dividing the same bytes are alike."""
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{len(data)}:".encode() + data)
