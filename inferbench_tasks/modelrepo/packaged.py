"""Models of other makers, as they come in Python packages: their files are taken, none of the code beside them runs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Watch
from inferbench_tasks.contracts.named_classes import NamedClasses
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packaged_models import PACKAGED
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.requests.made_up import MadeUp

if TYPE_CHECKING:
    import numpy as np


class PackagedModel(OneFramework):
    """It is adapted to requests as a file of the user's is (``onnx_file``)."""

    framework = "onnx"
    only = "comes as ONNX; leave framework out"
    weights = "published"
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
            "told": 2,  # earlier ones were called fp32, whatever their weights were in
            **({"kept": dict(self.entry.kept)} if self.entry.kept else {}),
        }

    def dataset(self) -> Dataset | None:
        return self.entry.dataset() if self.entry.dataset else None

    def characters(self, path: Path) -> tuple[str, ...] | None:
        if self.entry.characters is None:
            return None
        return (*self._metadata(path, self.entry.characters).split("\n"), " ")

    def file_inputs(self, contents: list[bytes]) -> Arrays | None:
        return self.entry.files(contents) if self.entry.files else None

    @property
    def names_classes(self) -> bool:
        return self.entry.classes is not None

    def named_classes(self, path: Path) -> NamedClasses | None:
        if self.entry.classes is None:
            return None
        return self.entry.classes({name: self._metadata(path, name) for name in self.entry.kept})

    def made_up(self) -> Dataset | None:
        return MadeUp(self.name, self.entry.noise) if self.entry.noise else None

    def _metadata(self, path: Path, name: str) -> str:
        """InputError where the model's file has no entry of that name."""
        import onnx

        model = onnx.load(path, load_external_data=False)
        for entry in model.metadata_props:
            if entry.key == name:
                return str(entry.value)
        raise InputError(
            f"{path.name} has no {name!r} among its metadata: what {self.name} answers can't be read",
            field="model.name",
        )

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
            if self.entry.kept:
                keep(folder / "model.onnx", Path(unpacked), self.entry.kept)
        watch.step(0, None, f"checking {Path(self.entry.file).name}")
        model = adapt(folder / "model.onnx", Path(self.entry.file).name)
        return Made(
            "onnx",
            "model.onnx",
            model.inputs,
            model.outputs,
            precision=model.precision,
            batch_size=model.batch_size,
            adapted=model.notes,
        )


def keep(model: Path, package: Path, kept: Mapping[str, str]) -> None:
    """Texts of a package among the metadata of an ONNX file: where it goes, what its answers say goes with it."""
    import onnx

    loaded = onnx.load(model)
    for name, file in kept.items():
        loaded.metadata_props.add(key=name, value=(package / file).read_text(encoding="utf-8"))
    onnx.save(loaded, model)
