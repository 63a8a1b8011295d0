"""``digits``: the 450 held-out handwritten digits of scikit-learn."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.requests import digits


class Digits(DataSource):
    """Those that no model of ours is trained on; see ``requests.digits``."""

    title = (
        "Handwritten digits, 8 x 8 pixels, 10 classes: the 450 that are held out of scikit-learn's 1,797; split train: "
        "the rest"
    )
    origin = "scikit-learn (E. Alpaydin, C. Kaynak, UCI, 1998)"
    licence = "CC BY 4.0"
    form = "grey"
    described = Described(
        version="1.2.0",  # 1.0.0 is that of the models' own, without hashes; 1.1.0 had no split but test
        samples_sha256="615514d4a4116f5a5b55378f8684888fdb7eb6442dd84481290282ef993a33fc",
        splits={"train": digits.SAMPLES - digits.HELD_OUT, "test": digits.HELD_OUT},
        labels=digits.NAMES,
        files=digits.Digits.files,
        made_with={"scikit-learn": "1.9.1", "numpy": "2.4.6"},
        split_sha256={"train": "db473940e620c10fa4d928c1e0ae15783592f471f94fe2a453d039caab292367"},
    )
    usual_split = "test"

    def open(self, path: Path | None) -> Collection:
        split = digits.split()
        return Collection(
            "digits", "grey", len(split.test_labels), lambda rows: split.test[rows], split.test_labels,
            digits.NAMES,
        )  # fmt: skip

    def open_split(self, path: Path | None, split: str) -> Collection:
        parts = digits.split()
        return Collection(
            "digits", "grey", len(parts.train_labels), lambda rows: parts.train[rows], parts.train_labels,
            digits.NAMES, training=True,
        )  # fmt: skip

    def version(self) -> str:
        return f"scikit-learn {version('scikit-learn')}"
