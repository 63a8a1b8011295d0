"""``fashion-mnist``: the 10,000 held-out images of Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.requests import fashion


class Fashion(DataSource):
    """From Debian's package; see ``requests.fashion``."""

    title = "Clothes, 28 x 28 grey pixels, 10 classes: the 10,000 test images; split train: the 60,000 others"
    origin = "Debian package dataset-fashion-mnist (H. Xiao, K. Rasul, R. Vollgraf, 2017)"
    licence = "MIT"
    form = "grey"
    described = Described(
        version="1.2.0",  # 1.0.0 is that of the models' own, without hashes; 1.1.0 had no split but test
        samples_sha256="0294e9b2790b328b5935eba4e453916490b82306ecd48fa146fa3f0be5259234",
        splits={"train": fashion.TRAINED, "test": fashion.HELD_OUT},
        labels=fashion.NAMES,
        files={
            "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
            "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
            "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
            "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
        },
        made_with={"numpy": "2.4.6"},
        split_sha256={"train": "57c0cb8123fe5e656499cea70987a7060d725c0e08b1821cd5279340bcc4e4cb"},
    )
    usual_split = "test"

    def open(self, path: Path | None) -> Collection:
        images, labels = fashion.part("t10k", fashion.FOLDER)
        return Collection(
            "fashion-mnist", "grey", len(labels), lambda rows: images[rows, 0], labels, fashion.NAMES
        )

    def open_split(self, path: Path | None, split: str) -> Collection:
        images, labels = fashion.part("train", fashion.FOLDER)
        return Collection(
            "fashion-mnist",
            "grey",
            len(labels),
            lambda rows: images[rows, 0],
            labels,
            fashion.NAMES,
            training=True,
        )
