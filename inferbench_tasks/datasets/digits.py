"""``digits``: the 450 held-out handwritten digits of scikit-learn."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.described import Described
from inferbench_tasks.requests import digits


class Digits(DataSource):
    """Those that no model of ours is trained on; see ``requests.digits``."""

    title = "Handwritten digits, 8 x 8 pixels, 10 classes: the 450 that are held out of scikit-learn's 1,797"
    origin = "scikit-learn (E. Alpaydin, C. Kaynak, UCI, 1998)"
    licence = "CC BY 4.0"
    form = "grey"
    described = Described(
        version="1.1.0",  # 1.0.0 is that of the models' own; it says the same, but for the hash of the samples
        samples_sha256="615514d4a4116f5a5b55378f8684888fdb7eb6442dd84481290282ef993a33fc",
        splits={"test": digits.HELD_OUT},
        labels=digits.NAMES,
        files=digits.Digits.files,
        made_with={"scikit-learn": "1.9.1", "numpy": "2.4.6"},
    )

    def open(self, path: Path | None) -> Collection:
        split = digits.split()
        return Collection(
            "digits", "grey", len(split.test_labels), lambda rows: split.test[rows], split.test_labels,
            digits.NAMES,
        )  # fmt: skip

    def version(self) -> str:
        return f"scikit-learn {version('scikit-learn')}"
