"""Real English sentences without labels: Python's own documentation of its language topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset


@cache
def sentences() -> tuple[str, ...]:
    """Distinct sentences of 5 to 40 words, in the order of the topics' names."""
    from pydoc_data.topics import topics

    texts: dict[str, None] = {}
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            prose = " ".join(paragraph.split())
            for sentence in re.findall(r"[A-Z][^.!?]*[.!?](?= |$)", prose):
                if 5 <= len(sentence.split()) <= 40:
                    texts.setdefault(sentence)
    return tuple(texts)


class Sentences(Dataset):
    """``encode`` turns texts into what the model takes."""

    name = "python-documentation"
    licence = "PSF-2.0"
    origin = "sentences of the documentation that Python itself brings; their number depends on its version"

    def __init__(self, encode: Callable[[list[str]], Arrays]) -> None:
        self.encode = encode

    def __len__(self) -> int:
        return len(sentences())

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return self.encode([sentences()[index] for index in indices])

    def raw(self, indices: NDArray[np.int64]) -> list[bytes]:
        return [sentences()[index].encode() for index in indices]

    def labels(self) -> None:
        return None
