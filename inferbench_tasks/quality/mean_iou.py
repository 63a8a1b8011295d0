"""Mean IoU of masks: how much of each class's pixels answers and targets have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered, Quality
from inferbench_tasks.quality.targets import Parts, TargetMeasure, finite, the_output

#: Pixels of this class are in no figure, as PASCAL VOC's void.
IGNORED = 255
#: With more classes the counts of each sample would not be small.
_MOST_CLASSES = 1000


class MeanIou(TargetMeasure):
    """Pixels are counted over all samples. Classes that neither targets nor answers have are in no mean."""

    title = "Mean IoU of masks"
    formula = (
        "mean over classes of pixels that both name / pixels that either names, over all samples together"
    )
    target = "masks"

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if targets.ndim != 3 or targets.dtype.kind not in "iu":
            return f"targets must be whole numbers n x height x width, not {targets.dtype} of shape {targets.shape}"
        output = _output(answered, targets)
        if output is None:
            return f"no output is a mask of {list(targets.shape[1:])}, nor scores of several classes for each pixel"
        if isinstance(output, str):
            return output
        if reason := finite(output):
            return reason
        there = (targets >= 0) & (targets != IGNORED)
        counted = targets[there]
        if not counted.size:
            return "no pixel of the targets has a class"
        if output.ndim == 4 and int(counted.max()) >= output.shape[1]:
            return f"the targets have class {int(counted.max())}, the answers {output.shape[1]} from 0 on"
        classes = int(max(counted.max(), _mask(output)[there].max())) + 1
        return (
            f"there are {classes:,} classes, more than {_MOST_CLASSES:,}" if classes > _MOST_CLASSES else None
        )

    def parts(self, answered: Answered) -> Parts:
        targets = answered.targets[self.target]
        output = _output(answered, targets)
        assert isinstance(output, np.ndarray)
        counted = (targets >= 0) & (targets != IGNORED)
        named = np.where(counted, _mask(output), -1)
        known = np.where(counted, targets, 0)
        classes = max(int(known.max()), int(named.max()), output.shape[1] - 1 if output.ndim == 4 else 0) + 1
        parts = []
        for mask, right, there in zip(named, known, counted, strict=True):
            one, other = mask[there], right[there]
            own = [
                np.bincount(values[values >= 0], minlength=classes)
                for values in (one, other, one[one == other])
            ]
            parts.append(np.concatenate([own[2], own[0] + own[1] - own[2]]).astype(np.float64))
        return parts

    def of_parts(self, parts: Parts) -> Quality:
        return super().of_parts(list(_of_one_length(parts)))

    def figure(self, parts: Parts) -> float:
        common, either = _of_one_length(parts).sum(axis=0).reshape(2, -1)
        there = either > 0
        return float((common[there] / either[there]).mean()) if there.any() else float("nan")


def _of_one_length(parts: Parts) -> NDArray[np.float64]:
    """A row for each sample: of a part of an evaluation that met fewer classes the others have no pixel."""
    if isinstance(parts, np.ndarray):
        return parts
    most = max(len(part) for part in parts) // 2
    if all(len(part) == 2 * most for part in parts):
        return np.asarray(parts)
    rows = np.zeros((len(parts), 2, most))
    for row, part in zip(rows, parts, strict=True):
        row[:, : len(part) // 2] = np.reshape(part, (2, -1))
    return rows.reshape(len(parts), -1)


def _output(answered: Answered, targets: NDArray[Any]) -> NDArray[Any] | str | None:
    def fits(output: NDArray[Any]) -> bool:
        if output.ndim == 4:
            of_classes = output.dtype.kind == "f" and output.shape[1] > 1
            return of_classes and (output.shape[0], *output.shape[2:]) == targets.shape
        return output.dtype.kind in "iu" and output.shape == targets.shape

    return the_output(answered, fits)


def _mask(output: NDArray[Any]) -> NDArray[np.int64]:
    """The class that is named for each pixel; below 0 none, as ``IGNORED`` in a mask says."""
    named = (
        output.argmax(axis=1)
        if output.ndim == 4
        else np.where(output == IGNORED, -1, output.astype(np.int64))
    )
    mask: NDArray[np.int64] = named.astype(np.int64)
    return mask
