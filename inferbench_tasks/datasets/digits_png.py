"""``digits-png``: the held-out digits as files, so that there is something to decode, resize and normalise."""

from __future__ import annotations

import io
from importlib.metadata import version
from pathlib import Path

import numpy as np

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.requests import digits

#: Grey levels of the data set: 0 to 16; each becomes the nearest of 0 to 255.
_LEVELS = 255


class DigitsPng(DataSource):
    """The same samples in the same order as ``digits``, 8 x 8 pixels each, as PNG files."""

    title = "The 450 held-out digits as PNG files of 8 x 8 pixels, 10 classes; for models that take pictures"
    origin = "scikit-learn (E. Alpaydin, C. Kaynak, UCI, 1998), written as PNG here"
    licence = "CC BY 4.0"
    form = "pictures"
    described = Described(
        version="1.1.0",  # 1.0.0 had no split but test
        samples_sha256="386d66f6ea47b0cde1c5b18133bfa85f99b1bf5a2808b2a102d0935e8515e969",
        splits={"train": digits.SAMPLES - digits.HELD_OUT, "test": digits.HELD_OUT},
        labels=digits.NAMES,
        files=digits.Digits.files,
        made_with={"scikit-learn": "1.9.1", "numpy": "2.4.6"},
        split_sha256={"train": "f754ab30c15e699bfcd73372b845c32bbf3f67aabba0f9a06a69a3e6307ad1f8"},
    )
    usual_split = "test"

    def open(self, path: Path | None) -> Collection:
        split = digits.split()
        return Collection(
            "digits-png", "pictures", len(split.test_labels), lambda rows: [_png(split.test[at]) for at in rows],
            split.test_labels, digits.NAMES,
        )  # fmt: skip

    def open_split(self, path: Path | None, split: str) -> Collection:
        parts = digits.split()
        return Collection(
            "digits-png", "pictures", len(parts.train_labels), lambda rows: [_png(parts.train[at]) for at in rows],
            parts.train_labels, digits.NAMES, training=True,
        )  # fmt: skip

    def version(self) -> str:
        return f"scikit-learn {version('scikit-learn')}"


def _png(image: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> bytes:
    """Of an image in [0, 1]."""
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(np.rint(image * _LEVELS).astype(np.uint8)).save(data, "PNG")
    return data.getvalue()
