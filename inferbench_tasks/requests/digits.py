"""The digits data set of scikit-learn: 1,797 handwritten digits of 8 x 8 pixels, 10 classes.

E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998 (CC BY 4.0); comes with
scikit-learn. Three quarters train, one quarter is held out, stratified, by a fixed seed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.requests.held_out import Split, hold_out

CLASSES = 10
NAMES = tuple(str(digit) for digit in range(CLASSES))
SIDE = 8
SAMPLES, HELD_OUT = 1797, 450


@cache
def split() -> Split:
    """Images ``n x 8 x 8`` in [0, 1], for training and held out."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)
    return hold_out(images, digits.target.astype(np.int64), HELD_OUT)


def resize(images: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """``n x rows x columns`` -> ``n x height x width``, bilinear, corners aligned; distinct stay distinct."""
    rows = _interpolation(images.shape[1], height)
    columns = _interpolation(images.shape[2], width)
    return np.asarray(np.einsum("hi,nij,wj->nhw", rows, images, columns, optimize=True), dtype=np.float32)


def _interpolation(size: int, new_size: int) -> NDArray[np.float32]:
    """The matrix of linear interpolation from ``size`` points to ``new_size``."""
    positions = np.linspace(0, size - 1, new_size)
    low = np.minimum(positions.astype(np.int64), size - 2)
    weight = positions - low
    matrix = np.zeros((new_size, size), dtype=np.float32)
    matrix[np.arange(new_size), low] = 1 - weight
    matrix[np.arange(new_size), low + 1] += weight
    return matrix


class Digits(Dataset):
    """The held-out digits; ``shape`` is what the model takes of each.

    ``(n,)``: n features, the first of the image resized to the smallest square that holds them;
    ``(rows, columns)``: a sequence of the image's rows; ``(3, height, width)``: a grey image.
    """

    name = "digits"
    licence = "CC BY 4.0"
    origin = "scikit-learn's copy of Alpaydin, Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998"
    files = {"digits.csv.gz": "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"}
    splits = {"train": SAMPLES - HELD_OUT, "test": HELD_OUT}
    classes = CLASSES
    class_names = NAMES

    def __init__(self, input_name: str, shape: tuple[int, ...]) -> None:
        self.input_name = input_name
        self.shape = shape

    def __len__(self) -> int:
        return HELD_OUT

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return {self.input_name: fit(split().test[indices], self.shape)}

    def labels(self) -> NDArray[np.int64]:
        return split().test_labels

    def calibration(self, count: int) -> Arrays:
        return {self.input_name: fit(split().train[:count], self.shape)}


def fit(images: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Square grey images ``n x side x side`` in a model's input shape; see ``Digits``."""
    if len(shape) == 1:
        side = int(np.ceil(np.sqrt(shape[0])))
        flat = images if side == images.shape[1] else resize(images, side, side)
        return np.ascontiguousarray(flat.reshape(len(images), -1)[:, : shape[0]])
    if len(shape) == 2:
        return np.ascontiguousarray(resize(images, *shape))
    grey = resize(images, *shape[1:])[:, None]
    return np.ascontiguousarray(np.broadcast_to(grey, (len(images), *shape)))
