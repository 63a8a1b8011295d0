"""How a model's time follows from those of its bricks: one file each, found by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry

#: (each brick's time, the bricks that each takes from, by position) -> the model's time, in the same unit.
Constructor = Callable[[Sequence[float], Sequence[Sequence[int]]], float]
CONSTRUCTORS: Registry[Constructor] = Registry(
    "constructor",
    "inferbench.constructors",
    {
        "sequential": "inferbench_tasks.bricks.constructors.sequential:construct",
        "parallel": "inferbench_tasks.bricks.constructors.parallel:construct",
        "streams": "inferbench_tasks.bricks.constructors.streams:construct",
    },
)
#: The constructor that adds all bricks up.
SUM = "sequential"
MOST_EXECUTORS = 1_024


def constructor_of(name: str) -> Constructor:
    """That of the name; ``streams:4`` is the one called ``streams`` with four executors.

    UnknownKindError for another name, InputError for a count that is none or of one that takes none.
    """
    kind, colon, count = name.partition(":")
    construct = CONSTRUCTORS.load(kind, "constructor")
    if not colon:
        return construct
    if "executors" not in inspect.signature(construct).parameters:
        raise InputError(
            f"the constructor {kind} takes no number of executors: {name!r}", field="constructor"
        )
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_EXECUTORS):
        raise InputError(f"{name!r}: executors are 1 to {MOST_EXECUTORS:,}", field="constructor")
    return functools.partial(construct, **{"executors": int(count)})
