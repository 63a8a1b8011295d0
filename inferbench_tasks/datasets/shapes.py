"""``shapes``: noisy pictures of a rectangle or disc, with all that can be asked of them. Generated, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described

COUNT, SIDE = 300, 32
NAMES = ("rectangle", "disc")
_SEED = 20_261_126
_NOISE = 0.1


class Shapes(DataSource):
    """One shape in each picture; its class, clean picture, mask, box and share of the picture are known exactly."""

    title = "Noisy grey pictures 1 x 32 x 32 of a rectangle or a disc, with clean picture, mask, box and size"
    origin = "generated here, by a fixed seed"
    licence = "made here"
    form = "tensors"
    generated = True
    described = Described(
        version="1.0.0",
        samples_sha256="e2134faf9e19bee7638f183ca44869bf94c12368be68747063ef5d8f6d877488",
        splits={"test": COUNT},
        labels=NAMES,
        metrics=(
            "top1_ratio",
            "macro_f1",
            "auc",
            "psnr_db",
            "ssim",
            "mean_iou",
            "average_precision",
            "target_spearman",
        ),
        made_with={"numpy": "2.4.6"},
    )

    def open(self, path: Path | None) -> Collection:
        pictures, targets = drawn()
        labels = np.arange(COUNT, dtype=np.int64) % len(NAMES)
        return Collection(
            "shapes", "tensors", COUNT, lambda rows: {"": pictures[rows]}, labels, NAMES, generated=True,
            targets=targets,
        )  # fmt: skip

    def version(self) -> str:
        return f"seed {_SEED}"


def drawn() -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
    """The noisy pictures, float32 in [0, 1], and the targets. Class 0 of masks is the ground."""
    rng = np.random.default_rng(_SEED)
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    masks = np.zeros((COUNT, SIDE, SIDE), dtype=np.uint8)
    clean = np.zeros((COUNT, 1, SIDE, SIDE), dtype=np.float32)
    boxes = np.zeros((COUNT, 1, 6), dtype=np.float32)
    for at in range(COUNT):
        if at % 2:
            width = height = 2 * int(rng.integers(4, 11))
        else:
            width, height = (int(size) for size in rng.integers(6, 21, 2))
        left, top = int(rng.integers(0, SIDE - width + 1)), int(rng.integers(0, SIDE - height + 1))
        inside = (x > left) & (x < left + width) & (y > top) & (y < top + height)
        if at % 2:
            inside = (x - left - width / 2) ** 2 + (y - top - height / 2) ** 2 < (width / 2) ** 2
        masks[at][inside] = 1 + at % 2
        # A disc is brighter than a rectangle, so that a threshold for each tells them apart where the noise lets it.
        clean[at, 0] = np.where(inside, 0.9 if at % 2 else 0.6, 0.2)
        boxes[at, 0] = (at % 2, left, top, left + width, top + height, 0)
    noisy = np.clip(clean + rng.normal(0, _NOISE, clean.shape), 0, 1).astype(np.float32)
    numbers = (masks > 0).mean(axis=(1, 2))
    return noisy, {"pictures": clean, "masks": masks, "boxes": boxes, "numbers": numbers}
