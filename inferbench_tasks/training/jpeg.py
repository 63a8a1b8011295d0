"""A seeded set of JPEG files in folders by class, as large as ImageNet's are in the mean: 500 x 375 pixels, 110 KB."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

FILES_SUFFIX: Final = ".jpg"
WIDTH, HEIGHT, CLASSES = 500, 375, 10
#: Noise on a smooth picture and the quality that give files of that size.
_NOISE, _QUALITY = 14.0, 92
#: The grid of the smooth picture's colours.
_GRID = (12, 16)


def write(folder: Path, count: int, seed: int) -> NDArray[np.int64]:
    """``count`` files ``class/number.jpg``, on the disk when this returns; their labels in the order of their paths."""
    labels = np.sort(np.random.default_rng(seed).integers(0, CLASSES, count))
    for number, label in enumerate(labels):
        path = folder / f"class-{label:02}" / f"{number:06}{FILES_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(encoded((seed, number), int(label)))
            file.flush()
            os.fsync(file.fileno())  # pages that are not written yet can't be dropped from memory
    return labels.astype(np.int64)


def encoded(seed: tuple[int, int], label: int) -> bytes:
    """One file. Its class is the colour of its left half, so that there is something to learn."""
    import io

    from PIL import Image

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (*_GRID, 3), dtype=np.uint8)
    hue = np.array([label * 25, 255 - label * 25, 40 + label * 15], dtype=np.uint8)
    coarse[:, : _GRID[1] // 2] = coarse[:, : _GRID[1] // 2] // 4 + hue // 4 * 3
    smooth = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    noise = rng.normal(0, _NOISE, (HEIGHT, WIDTH, 1))
    pixels = (np.asarray(smooth, dtype=np.float32) + noise).clip(0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
