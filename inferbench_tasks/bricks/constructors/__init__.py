"""How a model's time follows from those of its bricks: one file each, found by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inferbench_tasks.registry import Registry

#: (each brick's time, the bricks that each takes from, by position) -> the model's time, in the same unit.
Constructor = Callable[[Sequence[float], Sequence[Sequence[int]]], float]
CONSTRUCTORS: Registry[Constructor] = Registry(
    "constructor",
    "inferbench.constructors",
    {
        "sequential": "inferbench_tasks.bricks.constructors.sequential:construct",
        "parallel": "inferbench_tasks.bricks.constructors.parallel:construct",
    },
)
