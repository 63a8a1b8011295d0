"""A classifier's scores to the names of its best classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

import numpy as np

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError


class Labels:
    """``n x classes`` -> for each sample the ``top`` classes as (name, score), best first."""

    kind: ClassVar[str] = "labels"

    def __init__(self, names: Sequence[str], top: int = 1) -> None:
        if not 1 <= top <= len(names):
            raise InputError(f"processors.labels: top must be 1 to {len(names)}, it is {top}")
        self.names, self.top = tuple(names), top

    def __call__(self, scores: Array) -> list[list[tuple[str, float]]]:
        if scores.ndim != 2 or scores.shape[1] != len(self.names):
            raise InputError(
                f"processors.labels: scores of shape {list(scores.shape)} don't fit {len(self.names)} names"
            )
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.top]
        return [
            [(self.names[i], float(row[i])) for i in indices]
            for row, indices in zip(scores, best, strict=True)
        ]

    def tensors(self, rows: list[list[tuple[str, float]]]) -> Arrays:
        """``labels`` (text) and ``scores`` (float32), ``n x top`` each."""
        flat = list(chain.from_iterable(rows))
        labels = np.array([name for name, _ in flat], dtype=np.object_)
        scores = np.array([score for _, score in flat], dtype=np.float32)
        return {"labels": labels.reshape(-1, self.top), "scores": scores.reshape(-1, self.top)}
