"""Made-up samples of a model that has no data: only its source model's answers to them are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset

COUNT = 256
_SEED = 20_261_130


class MadeUp(Dataset):
    """Of the model with that name; ``noise`` gives so many samples, seeded. They have no labels, and say in their name
    what they are.
    """

    name = ""
    origin = "generated here, by a fixed seed"
    licence = "made here"

    def __init__(self, model: str, noise: Callable[[int, np.random.Generator], Arrays]) -> None:
        self.name = f"made-up samples of {model} (generated)"  # type: ignore[misc]  # each model has its own
        self._noise = noise

    def __len__(self) -> int:
        return COUNT

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        """Each drawn by its own number, so that a part of them are the same samples."""
        drawn = [self._noise(1, np.random.default_rng([_SEED, int(at)])) for at in indices]
        return {name: np.concatenate([each[name] for each in drawn]) for name in drawn[0]}

    def labels(self) -> None:
        return None
