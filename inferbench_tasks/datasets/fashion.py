"""``fashion-mnist``: the 10,000 held-out images of Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.requests import fashion

CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


class Fashion(DataSource):
    """From Debian's package; see ``requests.fashion``."""

    title = "Clothes, 28 x 28 grey pixels, 10 classes: the 10,000 test images"
    origin = "Debian package dataset-fashion-mnist (H. Xiao, K. Rasul, R. Vollgraf, 2017)"
    licence = "MIT"
    form = "grey"

    def open(self, path: Path | None) -> Collection:
        images, labels = fashion.part("t10k", fashion.FOLDER)
        return Collection("fashion-mnist", "grey", len(labels), lambda rows: images[rows, 0], labels, CLASSES)
