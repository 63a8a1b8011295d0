"""Texts of answers beside those that are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.targets import the_output


def answers(answered: Answered) -> list[str] | str | None:
    """What was read out of the outputs, else the only one of one text for each sample; why it is not known which is
    meant, or can't be read; None without one."""
    if answered.texts is not None:
        return answered.texts if isinstance(answered.texts, str) else list(map(str, answered.texts))
    output = the_output(answered, _is_texts)
    return output.reshape(-1).tolist() if isinstance(output, np.ndarray) else output


def _is_texts(output: NDArray[Any]) -> bool:
    return (
        output.dtype.kind in "UO"
        and output.size == len(output)
        and all(isinstance(text, str) for text in output.reshape(-1).tolist())
    )


def why_not(answered: Answered, targets: NDArray[Any], *, several: bool) -> str | None:
    """Why the answers' texts can't be set against these; ``several``: a sample may have several right ones."""
    if targets.dtype.kind != "U" or targets.ndim > 2:
        return f"targets must be texts, n or n x k, not {targets.dtype} of shape {targets.shape}"
    if not several and targets.size != len(targets):
        return f"it is of one right text for each sample; these have up to {targets.shape[1]}"
    given = answers(answered)
    return (
        given
        if isinstance(given, str)
        else "no output is one text for each sample"
        if given is None
        else None
    )


def right_ones(targets: NDArray[Any]) -> list[list[str]]:
    """The right texts of each sample."""
    return [list(map(str, row)) for row in targets.reshape(len(targets), -1)]


def distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and replacements that make one of the other (V. I. Levenshtein, 1966)."""
    if not one or not other:
        return len(one) or len(other)
    codes = {word: at for at, word in enumerate(dict.fromkeys([*one, *other]))}
    b = np.array([codes[word] for word in other])
    steps = np.arange(len(b) + 1)
    row = steps.copy()
    for word in one:
        # The best without an insertion; then insertions from the left: a running minimum of value - position.
        best = np.concatenate([[row[0] + 1], np.minimum(row[1:] + 1, row[:-1] + (b != codes[word]))])
        row = np.minimum.accumulate(best - steps) + steps
    return int(row[-1])
