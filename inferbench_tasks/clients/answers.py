"""Is that answer one? Checked for every answer, at the price of a look into a set.

A server can answer 200 with the right form and no bytes in it. Decoding each answer would cost more than
the request, but answers of one kind have one length: a length that has been decoded and found good once is
taken as good from then on, every other answer is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.protocols.bounds import answer_bytes
from inferbench_tasks.protocols.rows_of_one import as_taken

Outputs = dict[str, NDArray[np.generic]]
Decode = Callable[[bytes], Outputs]

#: Answers whose lengths are all different (numbers as text) are decoded up to so many lengths.
_MAX_LENGTHS = 512
#: All answers that have begun and not ended may take so much together, beside the largest good one for each.
_HELD_BYTES = 96 << 20


class BadAnswer(Exception):
    """An answer is not what the protocol, or the model's signature, says."""


@dataclass(frozen=True)
class ExpectedOutput:
    """``shape`` leaves out the batch axis; -1 is any size. None: nothing is known of the shape."""

    shape: tuple[int, ...] | None = None
    #: False for outputs that have no batch axis in front.
    batched: bool = True


class AnswerCheck:
    """Judges answers of one server; ``expected`` by output name, {} where nothing is known.

    Outputs are compared by position if the names differ (a conversion may rename them).
    """

    def __init__(
        self,
        decode: Decode,
        expected: Mapping[str, ExpectedOutput] | None = None,
        *,
        max_batch_size: int = 1,
    ) -> None:
        self._decode = decode
        self._expected = dict(expected or {})
        self._good: set[tuple[int, int]] = set()
        self.decoded = 0
        elements = sum(_elements(output, max_batch_size) for output in self._expected.values())
        #: The most bytes of one answer that are read: a few times what the outputs need.
        self.max_bytes = answer_bytes(elements)
        self._largest_bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs that are expected."""
        return tuple(self._expected)

    def known(self, batch_size: int, length: int) -> bool:
        """Whether an answer of that length has been decoded before and was good."""
        return (batch_size, length) in self._good

    def held_bytes(self, requests: int) -> int:
        """The most bytes that unfinished answers to so many requests may take together."""
        return _HELD_BYTES + requests * self._largest_bytes

    def outputs(self, answer: bytes | Outputs) -> Outputs:
        """The outputs of an answer as it came, or as a client's library has read it already."""
        return self._decode(answer) if isinstance(answer, bytes) else answer

    def problem(self, batch_size: int, length: int, answer: bytes | Outputs) -> str | None:
        """What is wrong with an answer; None if it is good, and then its ``length`` is remembered."""
        self.decoded += 1
        try:
            self.check(self.outputs(answer), batch_size)
        except BadAnswer as error:
            return str(error)
        self._largest_bytes = max(self._largest_bytes, length)
        if len(self._good) < _MAX_LENGTHS:
            self._good.add((batch_size, length))
        elif self.decoded > 8 * _MAX_LENGTHS:
            # Numbers as text: any length near the known ones will do, or the client would only decode.
            lengths = [n for _, n in self._good]
            self._good.update((batch_size, n) for n in range(min(lengths), max(lengths) + 1))
        return None

    def check(self, outputs: Outputs, batch_size: int) -> None:
        """BadAnswer unless the outputs have the names and shapes that are expected.

        One number for each sample may come as [n, 1], and is [n] in ``outputs`` afterwards.
        """
        if not outputs:
            raise BadAnswer("the answer has no outputs")
        if not self._expected:
            return
        names = list(self._expected)
        if not set(names) <= outputs.keys():
            if len(names) != len(outputs):
                raise BadAnswer(f"the answer has the outputs {list(outputs)}, {names} are expected")
            names = list(outputs)
        for name, expected in zip(names, self._expected.values(), strict=True):
            if expected.shape is None:
                continue
            want = (batch_size, *expected.shape) if expected.batched else expected.shape
            if expected.batched:
                outputs[name] = as_taken(outputs[name], want)
            shape = outputs[name].shape
            if len(shape) != len(want) or any(w not in (-1, s) for w, s in zip(want, shape, strict=True)):
                raise BadAnswer(f"output {name} has the shape {list(shape)}, {list(want)} is expected")


def _elements(output: ExpectedOutput, batch_size: int) -> int:
    """The elements of an output; 0 where a size is not known."""
    if output.shape is None or -1 in output.shape:
        return 0
    return math.prod(output.shape) * (batch_size if output.batched else 1)
