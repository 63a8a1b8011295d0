"""Which class was taken for which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Confusion:
    """``counts[i, j]``: samples of the class ``classes[i]`` whose answer names ``classes[j]``.

    ``classes``: those that stand among labels or answers, ascending; -1 is an answer that names none.
    """

    classes: tuple[int, ...]
    counts: NDArray[np.int64]

    def by_class(self) -> list[dict[str, Any]]:
        """Of each class the share of its samples that are answered right, and the share of its answers that are.

        Recall is None of a class without samples, precision of one that no answer names.
        """
        rows = []
        for at, name in enumerate(self.classes):
            right, samples, named = (
                int(self.counts[at, at]),
                int(self.counts[at].sum()),
                int(self.counts[:, at].sum()),
            )
            rows.append(
                {
                    "class": name,
                    "samples": samples,
                    "answers": named,
                    "recall_ratio": right / samples if samples else None,
                    "precision_ratio": right / named if named else None,
                }
            )
        return rows


def confusion(labels: NDArray[np.int64], decided: NDArray[np.int64]) -> Confusion:
    """The matrix of labels and answered classes, both with a row for each sample."""
    classes, places = np.unique(np.concatenate([labels, decided]), return_inverse=True)
    places = places.reshape(-1)
    size = len(classes)
    flat = np.bincount(places[: len(labels)] * size + places[len(labels) :], minlength=size * size)
    return Confusion(tuple(classes.tolist()), flat.reshape(size, size).astype(np.int64))
