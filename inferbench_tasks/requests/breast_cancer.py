"""Breast cancer Wisconsin (diagnostic): 569 samples of 30 measurements, 2 classes.

W. Wolberg, O. Mangasarian, N. Street, W. Street, UCI, 1995 (CC BY 4.0); comes with scikit-learn. Three quarters train,
one quarter is held out, stratified, by a fixed seed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.requests.held_out import Split, hold_out

SAMPLES, HELD_OUT = 569, 143
FEATURES = 30


@cache
def split() -> Split:
    """Measurements ``n x 30``, for training and held out; labels: 0 malignant, 1 benign."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return hold_out(bunch.data.astype(np.float32), bunch.target.astype(np.int64), HELD_OUT)


class BreastCancer(Dataset):
    """The held-out samples."""

    name = "breast-cancer"
    licence = "CC BY 4.0"
    origin = "scikit-learn's copy of Wolberg et al., Breast Cancer Wisconsin (Diagnostic), UCI, 1995"
    files = {"breast_cancer.csv": "fed3eb72d0575ef6192293f5093c6e801b1476b577d0386bf4455504522172ed"}
    splits = {"train": SAMPLES - HELD_OUT, "test": HELD_OUT}
    classes = 2
    class_names = ("malignant", "benign")

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
