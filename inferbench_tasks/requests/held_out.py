"""A labelled data set in two parts: samples to train on, and others that no model of ours has seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SEED = 20_240_501


class Split(NamedTuple):
    """Samples float32, the first axis counts them; labels int64, ``n``."""

    train: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]


def hold_out(samples: NDArray[np.float32], labels: NDArray[np.int64], count: int) -> Split:
    """``count`` of them held out, each class in proportion; the split is the same in every process."""
    from sklearn.model_selection import train_test_split

    train, test, train_labels, test_labels = train_test_split(
        samples, labels, test_size=count, random_state=_SEED, stratify=labels
    )
    return Split(train, train_labels, test, test_labels)
