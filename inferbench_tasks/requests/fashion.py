"""Fashion-MNIST: 60,000 and 10,000 labelled grey images of clothes, 28 x 28 pixels (Xiao et al., 2017; MIT).

Read from Debian's package ``dataset-fashion-mnist``; nothing is fetched.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.errors import MissingExtraError, StorageError

FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIDE = 28
NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CLASSES = len(NAMES)
TRAINED, HELD_OUT = 60_000, 10_000
_IMAGES, _LABELS = 2051, 2049
#: No file of it is larger: 60,000 images and their head. A small archive may unpack to anything.
_MAX_BYTES = 60_000 * SIDE * SIDE + 16


def require_installed(folder: Path = FOLDER) -> None:
    """MissingExtraError, with the command that installs it, where the package is missing."""
    if not (folder / "t10k-images-idx3-ubyte.gz").is_file():
        raise MissingExtraError(
            "The data set Fashion-MNIST is not installed: run `apt-get install dataset-fashion-mnist` (Debian "
            "or Ubuntu), or take the zoo model digits, which needs nothing"
        )


@cache
def part(name: str, folder: Path = FOLDER) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images and labels of the package's "train" or "t10k", see ``read``; MissingExtraError without it."""
    require_installed(folder)
    return read(name, folder)


def read(name: str, folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images ``n x 1 x 28 x 28`` in [0, 1] and labels of "train" or "t10k" in any folder. StorageError if damaged."""
    images = _read(folder / f"{name}-images-idx3-ubyte.gz", _IMAGES, 3)
    labels = _read(folder / f"{name}-labels-idx1-ubyte.gz", _LABELS, 1)
    if len(images) != len(labels) or images.shape[1:] != (SIDE, SIDE):
        raise StorageError(f"{folder}: {images.shape} images don't fit {len(labels)} labels")
    if len(labels) and labels.max() >= CLASSES:
        raise StorageError(f"{folder}: a label is {labels.max()}; there are {CLASSES} classes, from 0 on")
    return (images[:, None] / np.float32(255)).astype(np.float32), labels.astype(np.int64)


def _read(path: Path, magic: int, axes: int) -> NDArray[np.uint8]:
    """One IDX file: big-endian magic number, sizes, then bytes."""
    try:
        with gzip.open(path) as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it unpacks to more than the {_MAX_BYTES:,} bytes of the largest file")
        number, *sizes = struct.unpack_from(f">{1 + axes}I", data)
        values = np.frombuffer(data, dtype=np.uint8, offset=4 * (1 + axes))
        if number != magic:
            raise ValueError(f"magic number {number}, expected {magic}")
        return values.reshape(sizes)
    except (OSError, EOFError, ValueError, struct.error, zlib.error) as error:
        raise StorageError(f"{path} can't be read: {error}") from error


class Fashion(Dataset):
    """The 10,000 held-out images of Fashion-MNIST."""

    name = "fashion-mnist"
    licence = "MIT"
    origin = "Xiao, Rasul, Vollgraf, Fashion-MNIST, 2017; Debian's package dataset-fashion-mnist"
    splits = {"train": TRAINED, "test": HELD_OUT}
    classes = CLASSES
    class_names = NAMES

    def __len__(self) -> int:
        return HELD_OUT

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return {"input": part("t10k", FOLDER)[0][indices]}

    def labels(self) -> NDArray[np.int64]:
        return part("t10k", FOLDER)[1]

    def calibration(self, count: int) -> Arrays:
        return {"input": part("train", FOLDER)[0][:count]}
