"""``fashion-mnist``: the 10,000 held-out images of Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.requests import fashion


class Fashion(DataSource):
    """From Debian's package; see ``requests.fashion``."""

    title = "Clothes, 28 x 28 grey pixels, 10 classes: the 10,000 test images"
    origin = "Debian package dataset-fashion-mnist (H. Xiao, K. Rasul, R. Vollgraf, 2017)"
    licence = "MIT"
    form = "grey"
    described = Described(
        version="1.1.0",  # 1.0.0 is that of the models' own, without hashes
        samples_sha256="0294e9b2790b328b5935eba4e453916490b82306ecd48fa146fa3f0be5259234",
        splits={"test": fashion.HELD_OUT},
        labels=fashion.NAMES,
        files={
            "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
            "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
        },
        made_with={"numpy": "2.4.6"},
    )

    def open(self, path: Path | None) -> Collection:
        images, labels = fashion.part("t10k", fashion.FOLDER)
        return Collection(
            "fashion-mnist", "grey", len(labels), lambda rows: images[rows, 0], labels, fashion.NAMES
        )
