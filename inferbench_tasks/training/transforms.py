"""What happens to a decoded image on its way into a batch: resize, crop, flip, normalise. Pillow and numpy only."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: ImageNet's means and deviations by channel, of values from 0 to 1.
MEAN: Final = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION: Final = np.array([0.229, 0.224, 0.225], dtype=np.float32)
#: The shorter side is resized to this multiple of the crop's: 256 for 224.
MARGIN: Final = 256 / 224


class Transform:
    """An RGB image to a tensor ``3 x side x side`` float32.

    The shorter side becomes 8/7 of ``side``, the middle is cut out. ``augment``: another place and perhaps mirrored, by
    ``seed``, epoch and index, so that it does not depend on which process does it.
    """

    def __init__(self, side: int, *, augment: bool = False, seed: int = 0) -> None:
        self.side, self.augment, self.seed = side, augment, seed
        self.epoch = 0

    def __call__(self, image: Any, index: int) -> Any:
        """The tensor of the image that stands at ``index``."""
        import torch

        image = self.resize(image)
        left, top, mirrored = self.place(image.size, index)
        pixels: Any = np.asarray(image.crop((left, top, left + self.side, top + self.side)), dtype=np.float32)
        if mirrored:
            pixels = pixels[:, ::-1]
        pixels = (pixels / 255 - MEAN) / DEVIATION
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def resize(self, image: Any) -> Any:
        """The image with its shorter side as long as the crop and its margin, at its own proportions."""
        from PIL import Image

        width, height = image.size
        shorter = max(self.side, round(self.side * MARGIN))
        factor = shorter / min(width, height)
        size = (max(self.side, round(width * factor)), max(self.side, round(height * factor)))
        return image.resize(size, Image.Resampling.BILINEAR)

    def place(self, size: tuple[int, int], index: int) -> tuple[int, int, bool]:
        """Left and upper edge of the crop, pixels, and whether it is mirrored."""
        width, height = (side - self.side for side in size)
        if not self.augment:
            return width // 2, height // 2, False
        rng = np.random.default_rng((self.seed, self.epoch, index))
        return int(rng.integers(0, width + 1)), int(rng.integers(0, height + 1)), bool(rng.integers(0, 2))
