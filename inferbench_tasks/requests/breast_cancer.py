"""Breast cancer Wisconsin (diagnostic): 569 samples of 30 measurements, 2 classes.

W. Wolberg, O. Mangasarian, N. Street, W. Street, UCI, 1995 (CC BY 4.0); comes with scikit-learn. Three quarters train,
one quarter is held out, stratified, by a fixed seed.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset

SAMPLES, HELD_OUT = 569, 143
FEATURES = 30
_SPLIT_SEED = 20_240_501


class Split(NamedTuple):
    """Measurements ``n x 30`` float32, labels int64: 0 malignant, 1 benign."""

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


@cache
def split() -> Split:
    """The samples for training and those held out; the split is the same in every process."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    bunch = load_breast_cancer()
    train, test, train_labels, test_labels = train_test_split(
        bunch.data.astype(np.float32),
        bunch.target.astype(np.int64),
        test_size=HELD_OUT,
        random_state=_SPLIT_SEED,
        stratify=bunch.target,
    )
    return Split(train, train_labels, test, test_labels)


class BreastCancer(Dataset):
    """The held-out samples."""

    name = "breast-cancer"
    licence = "CC BY 4.0"
    origin = "scikit-learn's copy of Wolberg et al., Breast Cancer Wisconsin (Diagnostic), UCI, 1995"
    files = {"breast_cancer.csv": "fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed"}
    splits = {"train": SAMPLES - HELD_OUT, "test": HELD_OUT}
    classes = 2

    def __init__(self, input_name: str) -> None:
        self.input_name = input_name

    def __len__(self) -> int:
        return HELD_OUT

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return {self.input_name: split().test[indices]}

    def labels(self) -> NDArray[np.int64]:
        return split().test_labels

    def calibration(self, count: int) -> Arrays:
        return {self.input_name: split().train[:count]}
