"""COCO's average precision of boxes (T.-Y. Lin et al., 2014; the rules are those of its own evaluation)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.targets import Parts, TargetMeasure, finite, the_output

#: IoU from which a box is found: 0.50, 0.55, ... 0.95.
THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)
#: So many boxes of a class are looked at in each picture, those of the largest scores.
MOST_BOXES = 100
#: In a row of ``parts`` this stands for the score where the row counts the boxes that are to be found.
_COUNT = -1.0


class _AveragePrecision(TargetMeasure):
    """Boxes of crowds may be found by many and need not be: neither counts.

    An answer is an output n x m x 6 (x1, y1, x2, y2, score, class; scores of 0 or less fill up), or the outputs
    ``boxes`` n x m x 4, ``scores`` and ``labels`` n x m. ``upto``: how many of the thresholds count.
    """

    target = "boxes"
    draws = 200
    upto: ClassVar[int]

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if targets.ndim != 3 or targets.shape[2] != 6 or targets.dtype.kind not in "fiu":
            shape = f"{targets.dtype} of shape {targets.shape}"
            return f"targets must be n x m x 6 (class, x1, y1, x2, y2, crowd), not {shape}"
        known = targets[targets[..., 0] >= 0]
        if (
            not np.isfinite(targets).all()
            or (known[:, 3] <= known[:, 1]).any()
            or (known[:, 4] <= known[:, 2]).any()
        ):
            return "some targets are no boxes: needed are finite numbers, x1 < x2 and y1 < y2"
        if not np.isin(known[:, 5], (0, 1)).all():
            return "crowd must be 0 or 1"
        if not (known[:, 5] == 0).any():
            return "there is no box to be found"
        found = _boxes(answered)
        if found is None:
            return "no output is n x m x 6 (x1, y1, x2, y2, score, class), nor are there boxes, scores and labels"
        return found if isinstance(found, str) else finite(found) or _no_boxes(found)

    def parts(self, answered: Answered) -> Parts:
        found = _boxes(answered)
        assert isinstance(found, np.ndarray)
        targets = answered.targets[self.target].astype(np.float64)
        return [_matched(*pair) for pair in zip(found, targets, strict=True)]

    def figure(self, parts: Parts) -> float:
        rows = np.concatenate([np.asarray(part).reshape(-1, 4) for part in parts])
        counts = rows[:, 1] == _COUNT
        values = []
        bits = 1 << np.arange(self.upto)
        for name in np.unique(rows[counts, 0]):
            own = rows[:, 0] == name
            total = rows[own & counts, 2].sum()
            if not total:
                continue
            boxes = rows[own & ~counts]
            boxes = boxes[np.argsort(-boxes[:, 1], kind="stable")]
            hit, ignored = ((boxes[:, at].astype(np.int64)[:, None] & bits) > 0 for at in (2, 3))
            values += [_interpolated(hit[~ignored[:, at], at], total) for at in range(self.upto)]
        return float(np.mean(values)) if values else float("nan")


class AveragePrecision(_AveragePrecision):
    """Over the ten thresholds of IoU."""

    title = "COCO's average precision, IoU 0.50 to 0.95"
    formula = (
        "mean over classes, 10 IoU from 0.50 and 101 recalls of the largest precision at that recall or more"
    )
    upto = 10


class AveragePrecision50(_AveragePrecision):
    """At the loosest threshold."""

    title = "Average precision, IoU 0.50"
    formula = "mean over classes and 101 recalls of the largest precision at that recall or more; found: IoU >= 0.50"
    upto = 1


def _interpolated(hits: NDArray[np.bool_], total: float) -> float:
    """The mean over 101 recalls; ``hits``: by falling score; ``total``: boxes that are to be found."""
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    at = np.searchsorted(right / total, _RECALLS, side="left")
    return float(np.append(precision, 0.0)[at].mean())


def _matched(found: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of one picture rows of class, score, and the thresholds at which a box is one to be found, or is left out, as
    bits; a row for each class has ``_COUNT`` for its score and then how many are to be found. Flat."""
    found, targets = found[(found[:, 4] > 0) & (found[:, 5] >= 0)], targets[targets[:, 0] >= 0]
    rows = []
    for name in np.unique(np.concatenate([found[:, 5], targets[:, 0]])):
        boxes, right = found[found[:, 5] == name], targets[targets[:, 0] == name]
        boxes = boxes[np.argsort(-boxes[:, 4], kind="stable")][:MOST_BOXES]
        right = right[np.argsort(right[:, 5], kind="stable")]  # crowds last
        crowd = right[:, 5] == 1
        rows.append([name, _COUNT, float((~crowd).sum()), 0.0])
        overlap = _iou(boxes[:, :4], right[:, 1:5], crowd)
        hit, ignored = np.zeros(len(boxes), dtype=np.int64), np.zeros(len(boxes), dtype=np.int64)
        for bit, threshold in enumerate(THRESHOLDS):
            taken = np.zeros(len(right), dtype=bool)
            for at in range(len(boxes)):
                match = _best(overlap[at], taken, crowd, min(threshold, 1 - 1e-10))
                if match >= 0:
                    taken[match] = True
                    (ignored if crowd[match] else hit)[at] |= 1 << bit
        rows += [[name, *row] for row in zip(boxes[:, 4], hit, ignored, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(-1)


def _best(
    overlap: NDArray[np.float64], taken: NDArray[np.bool_], crowd: NDArray[np.bool_], least: float
) -> int:
    """Which box is found: the last of those that overlap most, a crowd only without another; -1 for none."""
    for group in (~crowd & ~taken, crowd):
        able = np.flatnonzero(group & (overlap >= least))
        if len(able):
            return int(able[np.flatnonzero(overlap[able] == overlap[able].max())[-1]])
    return -1


def _iou(boxes: NDArray[Any], right: NDArray[Any], crowd: NDArray[np.bool_]) -> NDArray[np.float64]:
    """boxes x right; with a crowd the part of the box that lies in it."""
    low = np.maximum(boxes[:, None, :2], right[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], right[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    area = np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=1)[:, None]
    whole = np.where(
        crowd[None, :], area, area + np.prod(right[:, 2:] - right[:, :2], axis=1)[None, :] - common
    )
    shares: NDArray[np.float64] = np.divide(common, whole, out=np.zeros_like(common), where=whole > 0)
    return shares


def _no_boxes(found: NDArray[np.float64]) -> str | None:
    """Why rows n x m x 6 are no boxes with scores and classes; None if they are."""
    rows = found[found[..., 5] >= 0]
    if ((rows[:, 4] < 0) | (rows[:, 4] > 1)).any():
        return "the boxes' scores must be from 0 to 1 (some are not: logits?)"
    kept = rows[rows[:, 4] > 0]
    if (kept[:, 2] < kept[:, 0]).any() or (kept[:, 3] < kept[:, 1]).any():
        return "some answers are no boxes x1, y1, x2, y2: x2 < x1 or y2 < y1"
    return "the boxes' classes must be whole numbers" if (kept[:, 5] % 1 != 0).any() else None


def _boxes(answered: Answered) -> NDArray[np.float64] | str | None:
    """n x m x 6: x1, y1, x2, y2, score, class."""
    boxes, scores, labels = (answered.outputs.get(name) for name in ("boxes", "scores", "labels"))
    if (
        boxes is not None
        and scores is not None
        and labels is not None
        and boxes.shape[2:] == (4,)
        and boxes.shape[:2] == scores.shape == labels.shape
    ):
        return np.concatenate([boxes, scores[..., None], labels[..., None]], axis=2).astype(np.float64)
    output = the_output(answered, lambda one: one.ndim == 3 and one.shape[2] == 6 and one.dtype.kind == "f")
    return output.astype(np.float64) if isinstance(output, np.ndarray) else output
