"""Non-maximum suppression: from a detector's raw boxes to one box per object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Array, Arrays


@dataclass(frozen=True)
class Detections:
    """One image's: ``boxes`` n x 4 (x1 y1 x2 y2), ``scores`` n, ``classes`` n; best score first."""

    boxes: Array
    scores: Array
    classes: NDArray[np.int64]


class NonMaximumSuppression:
    """``n x boxes x (4 + classes)`` -> ``Detections`` per image; suppression within each class."""

    kind: ClassVar[str] = "nms"

    def __init__(
        self, min_score: float = 0.25, max_overlap_ratio: float = 0.45, max_detections: int = 300
    ) -> None:
        self.min_score, self.max_overlap_ratio = min_score, max_overlap_ratio
        self.max_detections = max_detections

    def __call__(self, raw: Array) -> list[Detections]:
        return [self._one(image) for image in raw]

    def _one(self, raw: Array) -> Detections:
        classes = raw[:, 4:].argmax(1)
        scores = raw[np.arange(len(raw)), 4 + classes]
        enough = np.flatnonzero(scores >= self.min_score)
        order = enough[np.argsort(-scores[enough], kind="stable")]
        boxes = raw[:, :4]
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


def overlap_ratio(box: Array, others: Array) -> Array:
    """Intersection over union of one box with each of the others."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(np.clip(box[2:] - box[:2], 0, None))
    areas = np.prod(np.clip(others[:, 2:] - others[:, :2], 0, None), axis=1)
    union = area + areas - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))
