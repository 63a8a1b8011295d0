"""COCO's average precision of boxes (T.-Y. Lin et al., 2014; the rules are those of its own evaluation)."""

from __future__ import annotations

from collections.abc import Mapping
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
#: COCO's sizes of objects, bounds of their area in the picture's own pixels, both inside.
SMALL, MEDIUM, LARGE = (0.0, 32.0**2), (32.0**2, 96.0**2), (96.0**2, 1e10)
#: Coordinates of answers up to this beside targets from that on are shares of a picture's sides, and no pixels.
_MOST_OF_SHARES, _LEAST_OF_PIXELS = 1.5, 10.0
#: In a row of ``parts`` this stands for the score where the row counts the boxes that are to be found.
_COUNT = -1.0


class _AveragePrecision(TargetMeasure):
    """Boxes of crowds may be found by many and need not be: neither counts. So is one of another size than ``area``
    asks for, and what is found of such a size where there is nothing.

    An answer is an output n x m x 6 (x1, y1, x2, y2, score, class; scores of 0 or less fill up), or the outputs
    ``boxes`` n x m x 4, ``scores`` and ``labels`` (or ``classes``) n x m. ``upto``: how many of the thresholds count.
    """

    target = "boxes"
    draws = 200
    upto: ClassVar[int]
    area: ClassVar[tuple[float, float] | None] = None

    def unfit(self, answered: Answered, targets: NDArray[Any]) -> str | None:
        if targets.ndim != 3 or targets.shape[2] not in (6, 8) or targets.dtype.kind not in "fiu":
            shape = f"{targets.dtype} of shape {targets.shape}"
            return f"targets must be n x m x 6 (class, x1, y1, x2, y2, crowd) or n x m x 8, not {shape}"
        if reason := _no_targets(targets, self.area):
            return reason
        found = _boxes(answered)
        if found is None:
            return "no output is n x m x 6 (x1, y1, x2, y2, score, class), nor are there boxes, scores and labels"
        return found if isinstance(found, str) else finite(found) or _no_boxes(found, targets)

    def parts(self, answered: Answered) -> Parts:
        found = _boxes(answered)
        assert isinstance(found, np.ndarray)
        targets = answered.targets[self.target].astype(np.float64)
        return [_matched(*pair, self.area) for pair in zip(found, targets, strict=True)]

    def figure(self, parts: Parts) -> float:
        rows = np.concatenate([np.asarray(part).reshape(-1, 4) for part in parts])
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        values = []
        bits = 1 << np.arange(self.upto)
        for own in np.split(rows, np.unique(rows[:, 0], return_index=True)[1][1:]):
            counts = own[:, 1] == _COUNT
            total = own[counts, 2].sum()
            if not total:
                continue
            boxes = own[~counts]
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


class AveragePrecisionSmall(_AveragePrecision):
    """Of objects of less than 32 x 32 pixels."""

    title = "COCO's average precision of small objects"
    formula = "average precision, IoU 0.50 to 0.95, of objects with an area of up to 32 x 32 pixels of their picture"
    upto = 10
    area = SMALL


class AveragePrecisionMedium(_AveragePrecision):
    """Of objects between the two bounds."""

    title = "COCO's average precision of medium objects"
    formula = "average precision, IoU 0.50 to 0.95, of objects with an area from 32 x 32 to 96 x 96 pixels"
    upto = 10
    area = MEDIUM


class AveragePrecisionLarge(_AveragePrecision):
    """Of objects of more than 96 x 96 pixels."""

    title = "COCO's average precision of large objects"
    formula = (
        "average precision, IoU 0.50 to 0.95, of objects with an area from 96 x 96 pixels of their picture on"
    )
    upto = 10
    area = LARGE


def classes_named(outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The classes of all boxes that these outputs name; none where they are no boxes."""
    found = _boxes(Answered(dict(outputs), dict(outputs)))
    if not isinstance(found, np.ndarray):
        return np.empty(0)
    named: NDArray[np.float64] = np.unique(found[(found[..., 4] > 0) & (found[..., 5] >= 0)][:, 5])
    return named


def _interpolated(hits: NDArray[np.bool_], total: float) -> float:
    """The mean over 101 recalls; ``hits``: by falling score; ``total``: boxes that are to be found."""
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    at = np.searchsorted(right / total, _RECALLS, side="left")
    return float(np.append(precision, 0.0)[at].mean())


def _matched(
    found: NDArray[np.float64], targets: NDArray[np.float64], area: tuple[float, float] | None
) -> NDArray[np.float64]:
    """Of one picture rows of class, score, and the thresholds at which a box is one to be found, or is left out, as
    bits; a row for each class has ``_COUNT`` for its score and then how many are to be found. Flat."""
    pixel = targets[0, 7] if targets.shape[1] == 8 else 1.0
    found, targets = found[(found[:, 4] > 0) & (found[:, 5] >= 0)], targets[targets[:, 0] >= 0]
    rows = []
    for name in np.unique(np.concatenate([found[:, 5], targets[:, 0]])):
        boxes, right = found[found[:, 5] == name], targets[targets[:, 0] == name]
        boxes = boxes[np.argsort(-boxes[:, 4], kind="stable")][:MOST_BOXES]
        right = right[np.argsort(_beside(right, area), kind="stable")]  # those that count first
        crowd, beside = right[:, 5] == 1, _beside(right, area)
        rows.append([name, _COUNT, float((~beside).sum()), 0.0])
        overlap = _iou(boxes[:, :4], right[:, 1:5], crowd)
        of_another_size = _outside((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) * pixel, area)
        hit, ignored = np.zeros(len(boxes), dtype=np.int64), np.zeros(len(boxes), dtype=np.int64)
        for bit, threshold in enumerate(THRESHOLDS):
            taken = np.zeros(len(right), dtype=bool)
            for at in range(len(boxes)):
                match = _best(overlap[at], ~taken | crowd, beside, min(threshold, 1 - 1e-10))
                if match >= 0:
                    taken[match] = True
                    (ignored if beside[match] else hit)[at] |= 1 << bit
                elif of_another_size[at]:
                    ignored[at] |= 1 << bit
        rows += [[name, *row] for row in zip(boxes[:, 4], hit, ignored, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(-1)


def _outside(areas: NDArray[np.float64], area: tuple[float, float] | None) -> NDArray[np.bool_]:
    if area is None:
        return np.zeros(len(areas), dtype=bool)
    outside: NDArray[np.bool_] = (areas < area[0]) | (areas > area[1])
    return outside


def _beside(right: NDArray[np.float64], area: tuple[float, float] | None) -> NDArray[np.bool_]:
    """Which boxes need not be found: of crowds, and of objects of another size."""
    crowd: NDArray[np.bool_] = right[:, 5] == 1
    return crowd if area is None else crowd | _outside(right[:, 6], area)


def _best(
    overlap: NDArray[np.float64], free: NDArray[np.bool_], beside: NDArray[np.bool_], least: float
) -> int:
    """Which box is found: the last of those that overlap most, one beside only without another; -1 for none."""
    for group in (free & ~beside, free & beside):
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


def _no_targets(targets: NDArray[Any], area: tuple[float, float] | None) -> str | None:
    """Why rows n x m x 6 or 8 are no boxes that can be found; None if they are."""
    known = targets[targets[..., 0] >= 0]
    if (
        not np.isfinite(targets).all()
        or (known[:, 3] < known[:, 1]).any()
        or (known[:, 4] < known[:, 2]).any()
    ):
        return "some targets are no boxes: needed are finite numbers, x1 <= x2 and y1 <= y2"
    if not np.isin(known[:, 5], (0, 1)).all():
        return "crowd must be 0 or 1"
    if targets.shape[2] == 8 and ((known[:, 6] < 0).any() or (targets[..., 7] <= 0).any()):
        return "the area of an object must be 0 or more, that of a pixel more than 0"
    if area is not None and targets.shape[2] != 8:
        return "the targets don't say the objects' areas (n x m x 8)"
    if _beside(known, area).all():
        return "there is no box to be found" + ("" if area is None else " of an object of that size")
    return None


def _no_boxes(found: NDArray[np.float64], targets: NDArray[Any]) -> str | None:
    """Why rows n x m x 6 are no boxes with scores and classes, or lie on another scale; None if they are."""
    rows = found[found[..., 5] >= 0]
    if ((rows[:, 4] < 0) | (rows[:, 4] > 1)).any():
        return "the boxes' scores must be from 0 to 1 (some are not: logits?)"
    kept = rows[rows[:, 4] > 0]
    if (kept[:, 2] < kept[:, 0]).any() or (kept[:, 3] < kept[:, 1]).any():
        return "some answers are no boxes x1, y1, x2, y2: x2 < x1 or y2 < y1"
    largest = targets[targets[..., 0] >= 0][:, 1:5].max()
    if len(kept) and np.abs(kept[:, :4]).max() <= _MOST_OF_SHARES and largest >= _LEAST_OF_PIXELS:
        return (
            f"the answers' coordinates are all within {_MOST_OF_SHARES:g}, those of the targets go up to {largest:g}: "
            f"are they shares of the picture's sides? Needed are pixels of the model's input"
        )
    return "the boxes' classes must be whole numbers" if (kept[:, 5] % 1 != 0).any() else None


def _boxes(answered: Answered) -> NDArray[np.float64] | str | None:
    """n x m x 6: x1, y1, x2, y2, score, class."""
    boxes, scores, labels = (answered.outputs.get(name) for name in ("boxes", "scores", "labels"))
    labels = answered.outputs.get("classes") if labels is None else labels  # as the processor nms calls them
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
