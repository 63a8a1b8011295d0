"""What a model is made of: its bricks, how many of them differ, and of which types of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.sequences import WHOLE


@dataclass(frozen=True)
class Decomposition:
    """One model in one view at one granularity (None: whole)."""

    graph: LayerGraph
    granularity: int | None
    bricks: Sequence[Brick]

    @property
    def unique(self) -> dict[str, Brick]:
        """Key -> the first brick of that key, in the model's order."""
        first: dict[str, Brick] = {}
        for brick in self.bricks:
            first.setdefault(brick.key, brick)
        return first

    def by_operators(self) -> list[dict[str, Any]]:
        """A row for each type of brick: how many, how many of them unique, and their share; the most frequent first."""
        counts = Counter(" > ".join(brick.operators) for brick in self.bricks)
        unique = Counter(" > ".join(brick.operators) for brick in self.unique.values())
        return [
            {
                "operators": operators,
                "bricks": count,
                "unique": unique[operators],
                "share_ratio": count / len(self.bricks),
                "unique_ratio": unique[operators] / count,
            }
            for operators, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ]

    def summary(self) -> dict[str, Any]:
        """The counts. ``measurements``: unique bricks, those apart whose inputs take another time."""
        return {
            "view": self.graph.view.name,
            "instruction_set": self.graph.instruction_set,
            "granularity": WHOLE if self.granularity is None else self.granularity,
            "layers": len(self.graph.executed),
            "bricks": len(self.bricks),
            "unique": len(self.unique),
            "unique_ratio": len(self.unique) / len(self.bricks) if self.bricks else None,
            "measurements": len({brick.identity for brick in self.bricks}),
        }

    def sequence(self) -> list[dict[str, Any]]:
        """The bricks in the model's order: key, identity, operators, and the shapes of their inputs and outputs."""
        records = self.graph.records

        def shapes(values: Sequence[Any]) -> list[list[int]]:
            return [list(records[value.name].shape) for value in values]

        return [
            {
                "key": brick.key,
                "identity": brick.identity,
                "operators": list(brick.operators),
                "inputs": shapes(brick.inputs),
                "outputs": shapes(brick.outputs),
            }
            for brick in self.bricks
        ]
