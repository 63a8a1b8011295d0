"""Processors one after the other, each timed; the same code on the client and in the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.handles import ProcessorStep
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.base import PROCESSORS, Processor, timed

#: The one input of a request whose data the server processes.
RAW = "raw"


class Pipeline:
    """``before`` turns raw samples into the model's inputs, ``after`` its outputs into what the user gets.

    Raises InputError where a processor's settings are wrong, or a sample can't be processed.
    """

    def __init__(
        self, before: Sequence[ProcessorStep], after: Sequence[ProcessorStep], inputs: Sequence[str]
    ) -> None:
        self._before, self._after = [_build(step) for step in before], [_build(step) for step in after]
        self._inputs = tuple(inputs)

    def before(self, raw: Array) -> tuple[Arrays, dict[str, int]]:
        """The model's inputs for ``n`` raw samples, and each processor's time, ns."""
        value, spent = _run(self._before, raw.reshape(-1).tolist())
        return self._named(value), spent

    def after(self, outputs: Arrays) -> tuple[Arrays, dict[str, int]]:
        """What the user gets for the model's outputs, and each processor's time, ns.

        The first processor gets the output itself where the model has one, else all of them by name.
        """
        if not self._after:
            return outputs, {}
        only = len(outputs) == 1
        value, spent = _run(self._after, next(iter(outputs.values())) if only else outputs)
        return _as_arrays(self._after[-1], value), spent

    def each_before(self, samples: Sequence[Any]) -> Arrays:
        """The model's inputs for raw samples, processed one by one as a user's requests are."""
        parts = []
        for sample in samples:
            raw = np.empty(1, dtype=np.object_)  # whatever a sample is, numpy is not to look into it
            raw[0] = sample
            parts.append(self.before(raw)[0])
        return joined(parts)

    def each_after(self, outputs: Arrays) -> Arrays:
        """What the user gets for each sample's outputs alone."""
        count = len(next(iter(outputs.values())))
        rows = ({name: array[at : at + 1] for name, array in outputs.items()} for at in range(count))
        return joined([self.after(row)[0] for row in rows])

    def _named(self, value: Any) -> Arrays:
        if isinstance(value, np.ndarray) and len(self._inputs) == 1:
            return {self._inputs[0]: value}
        if isinstance(value, dict) and set(self._inputs) <= value.keys():
            return {name: value[name] for name in self._inputs}
        names = list(value) if isinstance(value, dict) else type(value).__name__
        raise InputError(
            f"they give {names}, the model takes {', '.join(self._inputs)}", field="processors.before"
        )


def joined(parts: Sequence[Arrays]) -> Arrays:
    """Samples that were processed one by one, one row after the other; shorter ones (tokens) are filled with zeros, as
    padding does."""
    return {name: _rows([part[name] for part in parts]) for name in parts[0]}


def _rows(parts: list[Array]) -> Array:
    shape = tuple(max(part.shape[axis] for part in parts) for axis in range(1, parts[0].ndim))
    if all(part.shape[1:] == shape for part in parts):
        return np.concatenate(parts)
    rows = np.zeros((len(parts), *shape), dtype=np.result_type(*parts))
    for at, part in enumerate(parts):
        place: tuple[Any, ...] = (at, *(slice(0, size) for size in part.shape[1:]))
        rows[place] = part[0]
    return rows


def _build(step: ProcessorStep) -> Processor:
    factory = PROCESSORS.load(step.kind, "processors")
    try:
        return factory(**step.settings)
    except TypeError as error:
        raise InputError(f"the settings of {step.kind} are wrong: {error}", field="processors") from error


def _run(processors: Sequence[Processor], value: Any) -> tuple[Any, dict[str, int]]:
    spent: dict[str, int] = {}
    for processor in processors:
        value, took_ns = timed(processor, value)
        spent[processor.kind] = spent.get(processor.kind, 0) + took_ns
    return value, spent


def _as_arrays(last: Processor, value: Any) -> Arrays:
    """A processor whose result is no array says with ``tensors(result)`` how it goes over the wire."""
    tensors = getattr(last, "tensors", None)
    if tensors is not None:
        value = tensors(value)
    if isinstance(value, np.ndarray):
        return {last.kind: value}
    if isinstance(value, dict) and all(isinstance(array, np.ndarray) for array in value.values()):
        return value
    raise InputError(f"{last.kind} gives {type(value).__name__}, which is no array", field="processors.after")
