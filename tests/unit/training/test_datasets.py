"""Data sets as a training takes them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.requests import fashion
from inferbench_tasks.training.datasets import arrays
from inferbench_tasks.training.job import TrainingJob


def clothes(folder: Path, labels: list[int], unpacked: int | None = None) -> Path:
    """A folder with files in the form of Fashion-MNIST's; ``unpacked``: bytes of the images' file."""
    folder.mkdir()
    for part in ("train", "t10k"):
        pixels = (np.arange(len(labels) * 784) % 256).astype(np.uint8).tobytes()
        images = struct.pack(">4I", 2051, len(labels), 28, 28) + pixels
        if unpacked is not None:
            images = bytes(unpacked)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        head = struct.pack(">2I", 2049, len(labels))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(head + bytes(labels)))
    return folder


def job(**data: object) -> TrainingJob:
    document = {"kind": "training", "name": "x", "data": {"kind": "fashion-mnist", "path": "clothes", **data}}
    return TrainingJob.model_validate(document)


def test_fashion_mnist_is_read_from_a_folder_and_resized(tmp_path: Path) -> None:
    """The first samples with their labels; corners stay where they were."""
    clothes(tmp_path / "clothes", [3, 1, 9])
    images, labels = arrays(job(samples=2), tmp_path)
    assert images.shape == (2, 1, 28, 28) and labels.tolist() == [3, 1]
    original = (np.arange(784) % 256).reshape(28, 28) / 255
    np.testing.assert_allclose(images[0, 0], original, atol=1e-6)
    small, _ = arrays(job(samples=2, image_size=14), tmp_path)
    assert small.shape == (2, 1, 14, 14)
    np.testing.assert_allclose(small[0, 0, [0, -1], [0, -1]], original[[0, -1], [0, -1]], atol=1e-6)


def test_a_folder_that_is_not_fashion_mnists_is_named(tmp_path: Path) -> None:
    """Files that are missing, too few samples, a label out of range, a file that unpacks to anything."""
    (tmp_path / "clothes").mkdir()
    with pytest.raises(StorageError, match="train-images-idx3-ubyte.gz can't be read: .*No such file"):
        arrays(job(samples=2), tmp_path)
    (tmp_path / "clothes").rmdir()
    clothes(tmp_path / "clothes", [0, 1])
    with pytest.raises(InputError, match="has 2 samples here; 3 were asked for"):
        arrays(job(samples=3), tmp_path)
    with pytest.raises(StorageError, match="a label is 10"):
        fashion.read("train", clothes(tmp_path / "other", [10, 0]))
    with pytest.raises(StorageError, match="unpacks to more than the 47,040,016 bytes"):
        fashion.read("train", clothes(tmp_path / "bomb", [1, 0], 47_040_017))
