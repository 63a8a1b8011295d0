"""Bricks by ONNX's reference evaluator: layer by layer in Python, as the model was converted."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.bricks.runtimes.base import BrickRuntime, Loaded
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError


class Reference(BrickRuntime):
    """It fuses nothing, so what it executes is the model as it is: neither ``optimised`` nor ``executed`` is needed."""

    name = "onnx-reference"
    title = "ONNX's reference evaluator"

    def version(self) -> str:
        return metadata.version("onnx")

    def open(self, path: Path, feeds: Arrays, *, threads: int, whole: bool) -> Loaded:
        from onnx.reference import ReferenceEvaluator

        if threads != 1:
            raise InputError(f"the reference evaluator has one thread, not {threads}", field="threads")
        return Evaluator(ReferenceEvaluator(str(path)))


class Evaluator(Loaded):
    """Its answers are new arrays each time: a copy into place is all that can be bound."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator

    def answers(self, feeds: Arrays) -> list[Array]:
        return [np.asarray(answer) for answer in self._evaluator.run(None, feeds)]

    def bind(
        self, feeds: Arrays, answers: Sequence[Array], onto: Sequence[tuple[int, int]]
    ) -> list[Array] | None:
        self._feeds, self._room = feeds, answers
        return [*feeds.values(), *answers]

    def run(self) -> None:
        for place, answer in zip(self._room, self._evaluator.run(None, self._feeds), strict=True):
            place[...] = answer
