"""An answer in words from a model's scores: for each token of a text, whether the answer starts or ends there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: So many sums of two scores are looked at together.
_SUMS = 4_000_000


@dataclass(frozen=True)
class SpanReader:
    """``offsets``: n x tokens x 2, see ``datasets.questions.Passages``. ``start``, ``end``: outputs' names, None: the
    only one whose name has that word. ``margin``: see ``SpansSpec.no_answer_margin``; None where each question has an
    answer."""

    offsets: NDArray[np.int32]
    contexts: Sequence[str]
    most: int
    margin: float | None
    start: str | None = None
    end: str | None = None

    def __call__(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[Any] | str:
        """A text for each sample; why there is none, as a plain text."""
        scores = []
        for what, name in (("start", self.start), ("end", self.end)):
            output = _output(outputs, what, name)
            if isinstance(output, str):
                return output
            if output.dtype.kind != "f" or output.size != self.offsets[..., 0].size:
                shape = "x".join(map(str, output.shape[1:]))
                return f"the {what} scores must be a number for each of {self.offsets.shape[1]} tokens, not {shape}"
            scores.append(output.reshape(self.offsets.shape[:2]).astype(np.float64))
        if any(np.isnan(each).any() or (each == np.inf).any() for each in scores):
            return "some scores of starts or ends are NaN or infinite"
        start, end = scores
        rows = max(1, _SUMS // (self.offsets.shape[1] * self.most))
        texts = [
            text
            for at in range(0, len(self.contexts), rows)
            for text in self._some(start[at : at + rows], end[at : at + rows], at)
        ]
        return np.array(texts, dtype=np.str_)

    def _some(self, start: NDArray[np.float64], end: NDArray[np.float64], first: int) -> list[str]:
        """Of the samples from ``first`` on; their scores n x tokens."""
        count, tokens = start.shape
        offsets = self.offsets[first : first + count]
        within = offsets[..., 0] >= 0
        ends = np.full((count, tokens + self.most - 1), -np.inf)
        ends[:, :tokens] = np.where(within, end, -np.inf)
        # By start and length: of equal sums the first start and then the shortest is the largest's first place.
        lengths = np.lib.stride_tricks.sliding_window_view(ends, self.most, axis=1)
        sums = (np.where(within, start, -np.inf)[..., None] + lengths).reshape(count, -1)
        best = sums.argmax(axis=1)
        texts = []
        for row, at in enumerate(best):
            token, length = divmod(int(at), self.most)
            score = sums[row, at]
            if score == -np.inf or (
                self.margin is not None and start[row, 0] + end[row, 0] - score > self.margin
            ):
                texts.append("")
                continue
            texts.append(
                self.contexts[first + row][int(offsets[row, token, 0]) : int(offsets[row, token + length, 1])]
            )
        return texts


def _output(outputs: Mapping[str, NDArray[Any]], what: str, name: str | None) -> NDArray[Any] | str:
    if name is not None:
        if name not in outputs:
            return f"the model has no output {name}; it has {', '.join(sorted(outputs))}"
        return outputs[name]
    named = [output for output in outputs if what in output.lower()]
    if len(named) != 1:
        return (
            f"which output has the {what} scores can't be told of {', '.join(sorted(outputs))}; name it "
            f"(evaluate.spans.{what})"
        )
    return outputs[named[0]]
