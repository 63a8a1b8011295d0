"""What a submission may ask for, as its checks need to know it.

The submission's rooms lie below those of backends, formats, models, networks and processors: whoever reads a
submission hands this knowledge in (``inferbench_tasks.abilities.INSTALLED``: what this installation can do).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.finding import Finding, Names
from inferbench_tasks.submission.model import ModelSpec, ZooModel
from inferbench_tasks.submission.systems import System


@dataclass(frozen=True)
class NamedManifest:
    """A manifest as plain values; ``content`` as it is hashed."""

    kind: str
    name: str
    version: str
    digest: str
    content: Mapping[str, Any]


class BackendAbilities(Protocol):
    """What one serving backend says of itself; its class has these attributes."""

    formats: tuple[str, ...]
    protocols: tuple[str, ...]
    launchers: tuple[str, ...]
    devices: tuple[str, ...]
    batching: bool
    #: Whether its gRPC is TensorFlow Serving's Predict instead of KServe v2.
    tfs_predict: bool
    server_processors: bool
    #: Whether it reads inputs from system shared memory (KServe v2's extension).
    shared_memory: bool
    #: Whether its HTTP and gRPC take a secret with each request, and answer nobody else.
    guarded: bool
    #: Whether several of it can stand behind a balancer (``serve.devices``).
    replicas: bool
    #: Whether it answers texts with streams of tokens.
    streams: bool
    #: The distribution that brings its runtime; None where no package does.
    package: str | None
    #: Whether other versions of it than the installed one serve (``serve.framework``).
    other_versions: bool
    #: Whether it has slots for streams of tokens.
    slots: bool
    #: Whether it serves random weights in place of a model's own (``serve.dummy_weights``).
    dummy_weights: bool
    #: The tokens of a slot unless a submission says otherwise; None where nobody knows.
    slot_tokens: int | None
    #: How it sends spans of its own, of every request; None: it does not.
    sends_spans: Literal["otlp_json", "otlp_grpc"] | None

    def levels_of(self, model_format: str) -> tuple[str, ...]:
        """The levels below the application that it can tell of single requests to models in that format."""

    def not_deeper(self, model_format: str) -> str:
        """Why it can't tell of deeper ones, and what helps; "" where nothing is to be said."""


class KnownManifests(Protocol):
    """The manifests that are known at one moment: looked up once for all names of a submission."""

    def manifest(self, kind: str, name: str, constraint: str) -> NamedManifest:
        """The newest manifest that fits; InputError, which says what there is."""

    def dataset(self, name: str, constraint: str) -> NamedManifest:
        """The manifest of a known data set as it is here, which is of one version; InputError where that does not
        fit, or where it has none.
        """

    def framework_for(self, name: str, constraint: str, backend: str | None) -> NamedManifest:
        """The newest version of a framework that fits and runs where the backend does; InputError."""

    def framework_in(self, name: str, constraint: str, image: str | None) -> NamedManifest | None:
        """The version of a framework that a container's image brings (None: the backend's own); None where nobody says
        and any will do, InputError where another one is needed.
        """

    def runtime_for(self, name: str, constraint: str) -> NamedManifest:
        """The newest version of a framework that fits and runs here, or in an environment of pinned packages that is
        made on first use; InputError.
        """


class Abilities(Protocol):
    """What submissions are checked against; asking starts and installs nothing, and reads no file that is not named."""

    @property
    def kinds(self) -> Names:
        """The kinds of submissions."""

    def schema(self, kind: str) -> type[SubmissionBase]:
        """What submissions of a known kind may say; InputError where a third party's can't be imported."""

    def unknown_names(self, kind: str, data: Mapping[str, Any]) -> Sequence[Finding]:
        """Names that nothing here has, in a submission of a known kind that need not be valid otherwise."""

    def findings(self, spec: JobBase) -> Sequence[Finding]:
        """What is impossible about a job; empty when nothing is."""

    def file_findings(self, spec: JobBase, base_dir: Path) -> Sequence[Finding]:
        """What is wrong with the contents of the files that a possible job names, which are there."""

    @property
    def backends(self) -> Names:
        """The kinds of serving backends that are installed."""

    @property
    def formats(self) -> Names:
        """The kinds of model formats that are installed."""

    @property
    def zoo(self) -> Names:
        """The names of the models of ``model: {kind: zoo}``."""

    @property
    def processors(self) -> Names:
        """The kinds of pre- and post-processors that are installed."""

    @property
    def datasets(self) -> Names:
        """The data sets that models are evaluated on."""

    @property
    def measures(self) -> Names:
        """The measures of how right answers are."""

    @property
    def networks(self) -> Names:
        """The networks by name; those that are spelled out (``custom:...``) are not among them."""

    def backend(self, name: str) -> BackendAbilities:
        """What a known backend can do; InputError where a third party's can't be imported."""

    def dataset_form(self, name: str) -> str | None:
        """What the samples of a known data set are; None where only the user's file tells."""

    def datasets_of(self, form: str) -> Sequence[str]:
        """The names of the data sets whose samples are that."""

    def unknown_split(self, dataset: str, split: str) -> str | None:
        """Why a known data set has no such split, with those that are there; None if it has, or if the user's files
        tell.
        """

    def unfit_classes(self, model: ModelSpec, dataset: str) -> str | None:
        """Why the labels of a known data set are no classes of a model, as far as both are described; None if they may
        be.
        """

    def unfit_measures(
        self, model: ModelSpec, dataset: str | None, names: Sequence[str]
    ) -> Mapping[str, str]:
        """Of known measures those that can't be had of a model on a known data set (None: its own), as far as both are
        described, with the reason.
        """

    def samples_to_ask(self, spec: JobBase, base_dir: Path) -> tuple[int, int]:
        """How many samples a serving job with ``evaluate`` asks, all parts together, and the bytes of one as its model
        takes it.

        InputError where neither the model nor the data tells before it is made and read.
        """

    def framework(self, model: ZooModel) -> str:
        """The framework that a known model of the zoo comes from; InputError where it is not to be had so."""

    def custom_network_problem(self, text: str) -> str | None:
        """What is wrong with a network that is spelled out (``custom:latency_ms=20``); None if nothing is."""

    def systems(self) -> Sequence[System] | None:
        """The devices that ``systems`` chooses among; None: its form alone is to be checked.

        InputError, which says what to do, where devices are not known.
        """

    def framework_place(self, framework: str, backend: str) -> str:
        """Where a framework must be for a known backend: ``here``, or the name of an environment; InputError."""

    def manifests(self) -> KnownManifests:
        """All that can be named now; InputError where two have one version. Reads PerfDB, where there is one."""

    def source_of(self, model: NamedManifest, base_dir: Path | None) -> dict[str, Any]:
        """What ``model`` of a submission is for a model's manifest; InputError where it can't be had here.

        A file is looked for below ``base_dir``, and must have the SHA-256 that the manifest says; a model of the model
        repository must be there in that version.
        """

    def require_route(self, framework: str, model_format: str, precision: str) -> None:
        """InputError, which names what is possible, where no conversion leads there."""
