"""``model: {kind: registry, name: ..., version: ...}``: a model of the repository."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from inferbench_tasks import settings
from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.modelrepo.card import ModelCard
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.model import ModelSpec, RegistryModel

#: What this process was given instead of PerfDB, by name and version as a submission names them.
_deliveries: dict[tuple[str, int | None], tuple[ModelCard, Path]] = {}


def deliver(delivery: dict[str, Any]) -> None:
    """From now on this process takes a model from a folder and asks PerfDB nothing of it.

    ``delivery``: ``model`` as a submission has it, its ``card``, and the ``folder`` with its files, from which they
    are taken.
    """
    spec = RegistryModel.model_validate(delivery["model"])
    card = ModelCard.model_validate(delivery["card"])
    _deliveries[spec.name, spec.version] = card, Path(delivery["folder"])


def settings_of(card: ModelCard) -> dict[str, Any]:
    """What determines the model of a card; see ``ModelSource.settings``."""
    return {
        "registered": card.digest,
        "format": card.format,
        "signature": [s.model_dump(mode="json") for s in (*card.inputs, *card.outputs)],
        "precision": card.precision,
        "recipe": 3,  # whatever their precision, earlier ones were called fp32
    }


class RegisteredSource(ModelSource):
    """What was registered from a built-in model keeps that model's data set and requests."""

    foreign = True
    #: Where its files lie already; None where PerfDB is asked.
    _files: Path | None = None

    def __init__(self, spec: RegistryModel, resolve: Callable[[ModelSpec], ModelSource]) -> None:
        """Looks the model up; raises InputError if there is none of that name and version.

        ``resolve`` leads from the built-in model that it was registered from to that model's source.
        """
        if delivery := _deliveries.get((spec.name, spec.version)):
            self.card, self._files = delivery
        else:
            with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
                self.card = ModelRepository(db).show(spec.name, spec.version)
        self.name, self.version = self.card.name, self.card.version
        self.framework = self.card.framework or "unknown"
        self.task, self.licence = self.card.task, self.card.licence
        self._resolve = resolve
        if origin := self._origin():
            self.accuracy_reason = origin.accuracy_reason

    def settings(self) -> dict[str, Any]:
        """The version's content: a copy under another name is the same model."""
        return settings_of(self.card)

    def make(self, folder: Path, watch: Watch) -> Made:
        self.refuse_code()
        if self._files is not None:
            for entry in self._files.iterdir():
                shutil.move(entry, folder / entry.name)
            path = ModelRepository.checked(self.card, folder)
        else:
            watch.step(0, None, f"fetching {self.card.name}@{self.card.version}")
            with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
                path = ModelRepository(db).fetch(self.card, folder)
        if any(folder.rglob("*.py")):  # a submission names the code that it runs; a record can't
            raise InputError(
                f"{self.card.name}@{self.card.version} has Python code in it, and code from the "
                f"repository is not run; register the model's ONNX or TorchScript form",
                field="model.name",
            )
        assert self.card.format is not None
        safe_files.check_model(path, self.card.format)
        return Made(
            format=self.card.format,
            file=path.relative_to(folder).as_posix(),
            inputs=tuple(self.card.inputs),
            outputs=tuple(self.card.outputs),
            parameters=self.card.parameters,
            precision=self.card.precision or "fp32",
            batch_size=self.card.batch_size,
            adapted=self.card.adapted,
        )

    def refuse_code(self) -> None:
        """Whoever may register a model is not for that one who may run code here: InputError."""
        if self.card.format is None or not FORMATS.load(self.card.format).is_code:
            return
        if not settings.registry_code():
            raise InputError(
                f"{self.card.name}@{self.card.version} is a {self.card.format} model: machine code, which does what it "
                f"wants when it is loaded. Register the form that it was made from, or, if everybody who can "
                f"register models may run code on the devices' machines, set {settings.REGISTRY_CODE}=allow there",
                field="model.name",
            )

    def dataset(self) -> Dataset | None:
        origin = self._origin()
        return origin.dataset() if origin else None

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        origin = self._origin()
        return origin.noise(inputs, count, rng) if origin else super().noise(inputs, count, rng)

    def _origin(self) -> ModelSource | None:
        if self.card.origin is None or self.card.origin.get("kind") not in ("zoo", "canonical"):
            return None
        spec: ModelSpec = TypeAdapter(ModelSpec).validate_json(_json(self.card.origin))
        return self._resolve(spec)


def _json(value: dict[str, Any]) -> bytes:
    import orjson

    return orjson.dumps(value)
