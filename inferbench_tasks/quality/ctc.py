"""An answer in words from a model's scores: of each place in a picture or a sound, which character stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The class of a place where no character begins or goes on.
BLANK = 0


@dataclass(frozen=True)
class CtcReader:
    """Greedy decoding (A. Graves et al., 2006, best path): the class with the largest score of each place, repeats
    merged, blanks dropped. ``characters``: those of class 1, 2, ...; class 0 is the blank.
    """

    characters: Sequence[str]

    def __call__(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any] | str:
        """A text for each sample; why there is none, as a plain text."""
        classes = len(self.characters) + 1
        fitting = [
            name
            for name, output in outputs.items()
            if output.dtype.kind == "f" and output.ndim == 3 and output.shape[2] == classes
        ]
        if len(fitting) != 1:
            shapes = ", ".join(f"{name} {list(output.shape[1:])}" for name, output in outputs.items())
            return f"one output must be places x {classes} scores of characters; there are {shapes}"
        # Sample by sample: all scores of a picture are a megabyte, what is read of them a word.
        texts = []
        for scores in outputs[fitting[0]]:
            if not np.isfinite(scores.max(axis=1, initial=-np.inf)).all():
                return "some scores of characters are NaN or infinite"
            texts.append(decoded(scores.argmax(axis=1), self.characters))
        return np.array(texts, dtype=np.str_)


def decoded(path: NDArray[np.integer[Any]], characters: Sequence[str]) -> str:
    """What the classes of the places, one after the other, say."""
    begins = np.ones(len(path), dtype=bool)
    begins[1:] = path[1:] != path[:-1]
    return "".join(characters[at - 1] for at in path[begins & (path != BLANK)].tolist())
