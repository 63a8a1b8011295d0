"""Fashion-MNIST's files as Debian ships them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.errors import MissingExtraError, StorageError
from inferbench_tasks.requests import fashion


def write(folder: Path, count: int, magic: int = 2051) -> None:
    pixels = bytes(range(256)) * (count * 784 // 256 + 1)
    images = struct.pack(">4I", magic, count, 28, 28) + pixels[: count * 784]
    labels = struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def test_images_and_labels_are_read(tmp_path: Path) -> None:
    """Big-endian sizes, bytes scaled to [0, 1], labels as ids."""
    write(tmp_path, 12)
    images, labels = fashion.part("t10k", tmp_path)
    assert images.shape == (12, 1, 28, 28) and images.dtype == np.float32
    assert images.flat[255] == 1.0 and labels.tolist() == [*range(10), 0, 1]


def test_a_missing_package_names_the_command(tmp_path: Path) -> None:
    """What to install, and what works without."""
    with pytest.raises(MissingExtraError, match="apt-get install dataset-fashion-mnist"):
        fashion.part("t10k", tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A wrong magic number and a truncated archive are told."""
    write(tmp_path, 3, magic=1)
    with pytest.raises(StorageError, match="magic number 1"):
        fashion.part("t10k", tmp_path)
    data = (tmp_path / "t10k-images-idx3-ubyte.gz").read_bytes()
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(data[:-20])
    with pytest.raises(StorageError, match="can't be read"):
        fashion.part("t10k", tmp_path)
