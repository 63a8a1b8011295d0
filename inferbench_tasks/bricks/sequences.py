"""Which layers make a brick: Algorithms 1 and 2 of DLBricks, over what each layer takes from which.

As printed they go on after a half-open range at its end + 1, which skips a layer, and run over the end. Here every
layer is in exactly one brick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferbench_tasks.bricks.bounds import MOST_GRANULARITY
from inferbench_tasks.errors import InputError

#: The granularity that makes a model one brick.
WHOLE = "whole"
#: In ``Needs``: the model's own input.
INPUT = -1


@dataclass(frozen=True)
class Needs:
    """What one layer takes beside weights and constants: so many tensors, written by these layers (or ``INPUT``)."""

    tensors: int
    layers: frozenset[int]


def parse_granularity(text: str) -> int | None:
    """A whole number from 1 to the most that there may be, or None for ``whole``; InputError for anything else."""
    if text.strip().lower() == WHOLE:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()) or not 1 <= int(digits[:9]) <= MOST_GRANULARITY:
        raise InputError(
            f"{text[:40]!r} is no number of layers; allowed: 1, 2, 3, ... up to the model's layers, or {WHOLE}; a "
            f"number is {MOST_GRANULARITY:,} at most",
            field="granularity",
        )
    return int(text)


def find_model_subgraphs(needs: Sequence[Needs], granularity: int | None) -> list[range]:
    """Algorithm 1: the layers (in topological order) as consecutive ranges of at most ``granularity`` layers.

    None: one range of them all. InputError where the granularity is above the number of layers.
    """
    count = len(needs)
    if granularity is None:
        granularity = max(count, 1)
    if granularity < 1 or granularity > max(count, 1):
        raise InputError(
            f"a brick of {granularity} layers can't be cut from {count}; allowed: 1 to {count}, or {WHOLE}",
            field="granularity",
        )
    bricks: list[range] = []
    begin = 0
    while begin < count:
        bricks += split_model(needs, begin, granularity)
        begin = bricks[-1].stop
    return bricks


def split_model(needs: Sequence[Needs], begin: int, granularity: int) -> list[range]:
    """Algorithm 2: the first window that is a network of its own, after single layers for each that is none.

    The window keeps its length and moves on by one; only the model's end makes it shorter.
    """
    bricks: list[range] = []
    while True:
        end = min(begin + granularity, len(needs))
        if is_network(needs, begin, end):
            return [*bricks, range(begin, end)]
        bricks.append(range(begin, begin + 1))
        begin += 1


def is_network(needs: Sequence[Needs], begin: int, end: int) -> bool:
    """Whether layers begin to end - 1 may be one brick.

    A single layer, the whole model, or a simple path: a first layer that takes one tensor at most, each later one
    something of the layer before it and of no other. A concatenation or an addition takes several: it is alone.
    """
    if end - begin == 1 or (begin == 0 and end == len(needs)):
        return True
    if needs[begin].tensors > 1:
        return False
    return all(needs[index].layers == {index - 1} for index in range(begin + 1, end))
