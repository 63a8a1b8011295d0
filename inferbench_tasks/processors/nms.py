"""Non-maximum suppression: from a detector's raw boxes to one box per object.

Detectors differ in how they write a box and in which order their axes stand, and suppression of the wrong one gives
boxes that look like boxes. So the shape is checked, corners must be corners, and what is not so is refused with the
option that reads it: YOLOv5 to v7 need ``box_format: cxcywh`` (and ``objectness: true``), YOLOv8 and later ``layout:
channels_first`` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError

#: So large a share of boxes that are none may be what a detector fills up with.
_FEW_RATIO = 0.01


@dataclass(frozen=True)
class Detections:
    """One image's: ``boxes`` n x 4 (x1 y1 x2 y2), ``scores`` n, ``classes`` n; best score first."""

    boxes: Array
    scores: Array
    classes: NDArray[np.int64]


class NonMaximumSuppression:
    """``n x boxes x (4 + classes)`` -> ``Detections`` per image; suppression within each class.

    ``box_format``: ``xyxy`` (two corners), ``cxcywh`` (centre, width, height) or ``xywh`` (corner, width, height).
    ``layout``: ``boxes_first``, or ``channels_first`` for ``n x (4 + classes) x boxes``. ``objectness``: the fifth
    column is the probability that there is an object at all, by which the classes' are multiplied.
    """

    kind: ClassVar[str] = "nms"

    def __init__(
        self,
        min_score: float = 0.25,
        max_overlap_ratio: float = 0.45,
        max_detections: int = 300,
        box_format: Literal["xyxy", "cxcywh", "xywh"] = "xyxy",
        layout: Literal["boxes_first", "channels_first"] = "boxes_first",
        objectness: bool = False,
    ) -> None:
        for name, value, allowed in (
            ("box_format", box_format, ("xyxy", "cxcywh", "xywh")),
            ("layout", layout, ("boxes_first", "channels_first")),
        ):
            if value not in allowed:
                raise InputError(f"nms: {name} is {value!r}; allowed: {', '.join(allowed)}")
        self.box_format, self.layout, self.objectness = box_format, layout, objectness
        self.min_score, self.max_overlap_ratio = min_score, max_overlap_ratio
        self.max_detections = max_detections

    def __call__(self, raw: Array) -> list[Detections]:
        if raw.ndim != 3:
            raise InputError(
                f"nms takes n x boxes x (4 + classes); the model's output has the shape {raw.shape}"
            )
        if self.layout == "channels_first":
            raw = raw.transpose(0, 2, 1)
        elif self._transposed(raw):
            raise InputError(
                f"nms takes n x boxes x (4 + classes); the model's output of shape {raw.shape} seems to have its boxes "
                "last, as YOLOv8 and later: set layout: channels_first (and box_format: cxcywh)"
            )
        least = 6 if self.objectness else 5
        if raw.shape[2] < least:
            raise InputError(
                f"nms needs {least} numbers for each box; the model's output has the shape {raw.shape}"
            )
        if self.objectness:
            raw = np.concatenate([raw[:, :, :4], raw[:, :, 5:] * raw[:, :, 4:5]], axis=2)
        if self.box_format == "xyxy":
            self._check_corners(raw)
        return [self._one(image) for image in raw]

    def _check_corners(self, raw: Array) -> None:
        """InputError where a box that scores enough is none of two corners, or more than a few of all boxes are not."""
        boxes = raw[:, :, :4].reshape(-1, 4)
        wrong = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
        scoring = (raw[:, :, 4:].max(axis=2) >= self.min_score).ravel()
        if not (wrong & scoring).any() and wrong.sum() <= _FEW_RATIO * len(wrong):
            return
        example = [round(float(value), 2) for value in boxes[wrong.argmax()]]
        raise InputError(
            f"nms takes boxes as two corners (x1 y1 x2 y2); {int(wrong.sum())} of {len(wrong)} are none, such as "
            f"{example}. Set box_format: cxcywh (centre, width, height; YOLO) or xywh"
        )

    def _transposed(self, raw: Array) -> bool:
        """Whether the boxes lie along the last axis: there are many more of them than of classes, and all scores are
        at most 1, which coordinates in pixels are only by chance.
        """
        _, rows, columns = raw.shape
        if rows < 5 or columns <= rows:
            return False
        as_scores, turned = raw[:, :, 4:], raw[:, 4:, :]
        return bool(_probabilities(turned) and not _probabilities(as_scores)) or columns > 20 * rows

    def _corners(self, boxes: Array) -> Array:
        """``boxes`` n x 4 as x1 y1 x2 y2."""
        if self.box_format == "xyxy":
            return boxes
        first, size = boxes[:, :2], boxes[:, 2:]
        low = first - size / 2 if self.box_format == "cxcywh" else first
        return np.concatenate([low, low + size], axis=1)

    def _one(self, raw: Array) -> Detections:
        classes = raw[:, 4:].argmax(1)
        scores = raw[np.arange(len(raw)), 4 + classes]
        enough = np.flatnonzero(scores >= self.min_score)
        order = enough[np.argsort(-scores[enough], kind="stable")]
        boxes = np.zeros((len(raw), 4), raw.dtype)
        boxes[enough] = self._corners(raw[enough, :4])
        survivors: list[int] = []
        while len(order) and len(survivors) < self.max_detections:
            best, rest = int(order[0]), order[1:]
            survivors.append(best)
            same = classes[rest] == classes[best]
            order = rest[~(same & (overlap_ratio(boxes[best], boxes[rest]) > self.max_overlap_ratio))]
        return Detections(boxes[survivors], scores[survivors], classes[survivors].astype(np.int64))

    def tensors(self, detections: list[Detections]) -> Arrays:
        """``boxes`` n x max_detections x 4, ``scores``, ``classes`` (-1 where there is none) and ``count`` n."""
        size = (len(detections), self.max_detections)
        boxes, scores = np.zeros((*size, 4), np.float32), np.zeros(size, np.float32)
        classes = np.full(size, -1, dtype=np.int64)
        for row, one in enumerate(detections):
            count = len(one.scores)
            boxes[row, :count], scores[row, :count], classes[row, :count] = one.boxes, one.scores, one.classes
        count_of = np.array([len(one.scores) for one in detections], dtype=np.int64)
        return {"boxes": boxes, "scores": scores, "classes": classes, "count": count_of}


def _probabilities(values: Array) -> bool:
    return bool(values.size and values.min() >= 0 and values.max() <= 1)


def overlap_ratio(box: Array, others: Array) -> Array:
    """Intersection over union of one box with each of the others."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(np.clip(box[2:] - box[:2], 0, None))
    areas = np.prod(np.clip(others[:, 2:] - others[:, :2], 0, None), axis=1)
    union = area + areas - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))
