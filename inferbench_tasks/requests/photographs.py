"""Real photographs without labels: seeded crops of the two sample photographs of scikit-learn.

"china.jpg" and "flower.jpg", 427 x 640 pixels, CC BY; each sample is another crop, half of them mirrored.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import Dataset

COUNT = 4096
FILES = ("china.jpg", "flower.jpg")
_SEED = 20_240_501


@cache
def _photographs() -> list[Any]:
    from PIL import Image
    from sklearn.datasets import load_sample_image

    return [Image.fromarray(load_sample_image(name)) for name in FILES]


class Photographs(Dataset):
    """``normalise`` turns ``n x side x side x 3`` uint8 into what the model takes."""

    name = "sample-photographs"
    licence = "CC BY"
    origin = "seeded crops of the two sample photographs of scikit-learn"
    files = {
        "china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        "flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
    }
    splits = {"test": COUNT}

    def __init__(self, input_name: str, side: int, normalise: Callable[[Array], Array]) -> None:
        self.input_name = input_name
        self.side = side
        self.normalise = normalise

    def __len__(self) -> int:
        return COUNT

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        pixels = np.stack([np.asarray(self.crop(int(index))) for index in indices])
        return {self.input_name: self.normalise(pixels)}

    def raw(self, indices: NDArray[np.int64]) -> list[bytes]:
        """As PNG files, so that decoding gives the very same pixels."""
        return [_png(self.crop(int(index))) for index in indices]

    def crop(self, index: int) -> Any:
        """The photograph of one sample, ``side x side``; the first of each file is the whole of it."""
        from PIL import Image

        photograph = _photographs()[index % len(FILES)]
        rng = np.random.default_rng([_SEED, index])
        width, height = photograph.size
        share = 1.0 if index < len(FILES) else rng.uniform(0.5, 1.0)
        size = round(share * min(width, height))
        left = round(rng.uniform(0, width - size)) if index >= len(FILES) else (width - size) // 2
        top = round(rng.uniform(0, height - size)) if index >= len(FILES) else (height - size) // 2
        box = (left, top, left + size, top + size)
        image = photograph.resize((self.side, self.side), Image.Resampling.BICUBIC, box=box)
        if index >= len(FILES) and rng.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return image

    def labels(self) -> None:
        return None


def _png(image: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
