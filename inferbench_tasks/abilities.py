"""What this installation can do, third parties' packages included: what its submissions are checked against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.datasets.about import rows as dataset_rows
from inferbench_tasks.datasets.base import DATASETS, unknown_split
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.route import route
from inferbench_tasks.manifests.catalogue import Catalogue, place_of
from inferbench_tasks.manifests.named import known_here, named, source_of
from inferbench_tasks.modelrepo.zoo import ZOO, zoo_source
from inferbench_tasks.networks.network import custom_problem, network_names
from inferbench_tasks.pipelines.base import PIPELINES
from inferbench_tasks.processors.base import PROCESSORS
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.submission.abilities import Abilities, KnownManifests, NamedManifest
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.model import (
    CnnModel,
    MlpModel,
    ModelSpec,
    RnnModel,
    TransformerModel,
    ZooModel,
)
from inferbench_tasks.submission.systems import System

R = TypeVar("R")


class NetworkNames:
    """The networks that can be emulated, and ``lan``; the table is read again each time, as people edit it."""

    what = "network"

    def __iter__(self) -> Iterator[str]:
        return iter(network_names())

    def __contains__(self, name: object) -> bool:
        return name in network_names()


@dataclass(frozen=True)
class ManifestsHere:
    """A catalogue, as ``submission.abilities.KnownManifests``."""

    catalogue: Catalogue
    backend: Callable[[str], type[Backend]]

    def manifest(self, kind: str, name: str, constraint: str) -> NamedManifest:
        """Of what is built in, of files, and of PerfDB where there is one."""
        return named(self.catalogue.resolve(kind, name, constraint).manifest)

    def dataset(self, name: str, constraint: str) -> NamedManifest:
        """By what the data set's class says of itself."""
        return named(self.catalogue.dataset_for(name, constraint))

    def framework_for(self, name: str, constraint: str, backend: str | None) -> NamedManifest:
        """By the frameworks' manifests."""
        place = self.backend(backend) if backend else None
        return named(self.catalogue.framework_for(name, constraint, place))

    def framework_in(self, name: str, constraint: str, image: str | None) -> NamedManifest | None:
        """By the images of the frameworks' manifests that lie in files."""
        manifest = self.catalogue.framework_in(name, constraint, image)
        return named(manifest) if manifest is not None else None

    def runtime_for(self, name: str, constraint: str) -> NamedManifest:
        """By the frameworks' manifests that are built in or lie in files."""
        return named(self.catalogue.runtime_for(name, constraint))


@dataclass(frozen=True)
class InstalledAbilities:
    """The registries, as ``submission.abilities.Abilities``."""

    kinds = PIPELINES
    backends = BACKENDS
    formats = FORMATS
    zoo = ZOO
    processors = PROCESSORS
    datasets = DATASETS
    measures = MEASURES
    networks = NetworkNames()
    #: Whether ``systems`` is checked by its form alone where no device is known.
    form_alone: bool = field(default=False, kw_only=True)

    def schema(self, kind: str) -> type[SubmissionBase]:
        """The schema of the submissions of a pipeline; InputError for an unknown ``kind``."""
        return PIPELINES.load(kind).submission

    def unknown_names(self, kind: str, data: Mapping[str, Any]) -> Sequence[Finding]:
        """The names in ``data`` that the pipeline of ``kind`` knows nothing of."""
        return PIPELINES.load(kind).unknown_names(data, self)

    def findings(self, spec: JobBase) -> Sequence[Finding]:
        """What can't be combined in a job, as its pipeline says."""
        return PIPELINES.load(spec.kind).findings(spec, self)

    def file_findings(self, spec: JobBase, base_dir: Path) -> Sequence[Finding]:
        """As the job's pipeline reads them."""
        return PIPELINES.load(spec.kind).file_findings(spec, base_dir, self)

    def backend(self, name: str) -> type[Backend]:
        """The backend's class, which carries its abilities."""
        return BACKENDS.load(name)

    def dataset_form(self, name: str) -> str | None:
        """As its class says; a table may name files."""
        source = DATASETS.load(name, "evaluate.dataset")
        return None if source.form_by_file else source.form

    def datasets_of(self, form: str) -> Sequence[str]:
        """Of those that are installed and can be imported."""
        return [row["name"] for row in dataset_rows() if row["form"] == form]

    def unknown_split(self, dataset: str, split: str) -> str | None:
        """By what its class says of itself; of one that reads the user's files these tell."""
        source = DATASETS.load(dataset, "evaluate.dataset")()
        return None if source.takes_path else unknown_split(dataset, source, None, split)

    def unfit_classes(self, model: ModelSpec, dataset: str) -> str | None:
        """By the names of both, or their number; of models that are made here."""
        from inferbench_tasks.quality.beforehand import unfit_classes

        return _of_source(model, lambda source: unfit_classes(source, dataset))

    def unfit_measures(
        self, model: ModelSpec, dataset: str | None, names: Sequence[str]
    ) -> Mapping[str, str]:
        """By the model's task and outputs, and what the data set says of itself; of models that are made here."""
        from inferbench_tasks.quality.beforehand import unfit_measures

        return _of_source(model, lambda source: unfit_measures(source, dataset, names)) or {}

    def samples_to_ask(self, spec: JobBase, base_dir: Path) -> tuple[int, int]:
        """By what the model's source and the data set say of themselves; of files by their heads and names."""
        from inferbench_tasks.datasets.foreseen import samples_to_ask

        return samples_to_ask(spec, base_dir)

    def framework(self, model: ZooModel) -> str:
        """Asked of the model itself; nothing of it is fetched or made."""
        return zoo_source(model).framework

    def custom_network_problem(self, text: str) -> str | None:
        """By the same schema as a row of ``configs/networks.yaml``."""
        return custom_problem(text)

    def systems(self) -> Sequence[System] | None:
        """No device is known to an installation by itself."""
        if self.form_alone:
            return None
        raise InputError(
            "is decided by the devices of a system that takes submissions, and none is known here; `inferbench submit` "
            "it, `inferbench run` it on this machine, or name serve.device"
        )

    def framework_place(self, framework: str, backend: str) -> str:
        """By the backend's own environment, if it has one."""
        return place_of(framework, BACKENDS.load(backend))

    def manifests(self) -> KnownManifests:
        """Made anew each time, as people add some."""
        return ManifestsHere(known_here(), self.backend)

    def source_of(self, model: NamedManifest, base_dir: Path | None) -> dict[str, Any]:
        """The first source that can be had here."""
        return source_of(model, base_dir)

    def require_route(self, framework: str, model_format: str, precision: str) -> None:
        """By a search over the registered formats."""
        route(framework, model_format, precision, framework)


def _of_source(model: ModelSpec, tell: Callable[[ModelSource], R]) -> R | None:
    """What ``tell`` says of a model whose source knows it without its file; None of all others, and where it or its
    data can't be had so, which is said elsewhere."""
    if isinstance(model, ZooModel):
        try:
            return ZOO.told(
                model.name,
                lambda made: tell(made(model.name, model.framework).sized(model.layers, model.width)),
            )
        except InputError:
            return None
    if isinstance(model, MlpModel | CnnModel | RnnModel | TransformerModel):
        from inferbench_tasks.modelrepo.canonical.source import CanonicalSource

        return tell(CanonicalSource(model))
    return None


INSTALLED: Abilities = InstalledAbilities()
