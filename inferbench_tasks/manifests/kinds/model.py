"""``kind: model``: what a model takes and gives, where it comes from, and what is published of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from inferbench_tasks.contracts.models import Weights
from inferbench_tasks.contracts.spec import Count, RelativePath, Sha256, Slug, Spec
from inferbench_tasks.manifests.kinds.base import Manifest, RequirementText, Text
from inferbench_tasks.submission.model import CanonicalModel, ZooModel
from inferbench_tasks.submission.processors import ProcessorSpec

_NOBODY_PUBLISHED = ("trained_here", "random")
_WORDS = {"published": "published", "trained_here": "trained here", "random": "random"}
Size = Annotated[int, Field(ge=-1, le=2**31 - 1)]


class TensorManifest(Spec):
    """One input or output."""

    name: Annotated[str, Field(min_length=1, max_length=300)]
    """The tensor's name in the model."""
    dtype: Annotated[str, Field(pattern=r"^[a-z]+[0-9]{0,2}$", max_length=20)]
    """numpy's name of its type, such as ``float32``."""
    shape: Annotated[tuple[Size, ...], Field(strict=False, max_length=8)]
    """Without the batch axis; -1 is any size."""
    layout: Annotated[str, Field(pattern=r"^[A-Z]{1,8}$")] | None = None
    """What the axes are, with the batch: ``NCHW``, ``NHWC``."""
    steps: Annotated[tuple[ProcessorSpec, ...], Field(strict=False, max_length=8)] = ()
    """Of an input: from raw data to it, of an output: from it to what the user gets; as ``processors`` of a submission.
    They describe: a submission that wants them says so."""


class PackagePin(Spec):
    """A wheel of an index, by its content."""

    name: Slug
    """The distribution."""
    version: Annotated[str, Field(min_length=1, max_length=100)]
    """Its version."""
    sha256: Sha256
    """Of the wheel."""


class BuiltInSource(Spec):
    """A model that InferBench makes, or takes out of a package."""

    kind: Literal["built_in"]
    model: Annotated[ZooModel | CanonicalModel, Field(discriminator="kind")]
    """As ``model`` of a submission."""
    package: PackagePin | None = None
    """The package that its weights come in, or of what else it is made; null where all of it is made here."""


class FileSource(Spec):
    """A file beside the submission that names the manifest. Another content is refused before anything starts."""

    kind: Literal["file"]
    path: RelativePath
    """Relative to the submission's folder."""
    sha256: Sha256
    """Of the file."""
    format: Slug | None = None
    """Told by the file's name unless given."""


class RegistrySource(Spec):
    """A model of the model repository."""

    kind: Literal["registry"]
    name: Slug
    """The name that it was registered under."""
    version: Count
    """Its version there."""


class UrlSource(Spec):
    """A file somewhere else, by its checksum. InferBench fetches none: get it, and name it with ``kind: file``."""

    kind: Literal["url"]
    url: Annotated[str, Field(pattern=r"^(https?|s3|gs)://[^\s]+$", max_length=2000)]
    """Where it is."""
    sha256: Sha256 | None = None
    """Of the file, where it is known."""
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Of the file, where only that is known."""


SourceSpec = Annotated[BuiltInSource | FileSource | RegistrySource | UrlSource, Field(discriminator="kind")]


class PublishedFigure(Spec):
    """What others say of the model's very weights; never set beside what was measured without its source."""

    figure: Slug
    """Such as ``top1_ratio``."""
    value: float
    """In the figure's unit."""
    source: Text
    """Who says so, and where: a paper, a page, with the table."""


class ModelManifest(Manifest):
    """A model: what it takes and gives, and where it comes from."""

    kind: Literal["model"]
    task: Slug | None = None
    """Such as ``image-classification``."""
    inputs: Annotated[tuple[TensorManifest, ...], Field(strict=False, max_length=100)] = ()
    """What it takes; left out where only making it tells."""
    outputs: Annotated[tuple[TensorManifest, ...], Field(strict=False, max_length=100)] = ()
    """What it gives."""
    sources: Annotated[tuple[SourceSpec, ...], Field(strict=False, min_length=1, max_length=10)]
    """Where it comes from; the first that can be had here is taken."""
    framework: RequirementText | None = None
    """What it needs, with the versions that fit: ``onnxruntime>=1.20``."""
    dataset: RequirementText | None = None
    """The data set that it is measured on: ``digits@^1``."""
    weights: Weights | None = None
    """``published``: others made them public; ``trained_here``: a training that InferBench runs makes them, and what is
    right of its answers is measured, not quoted; ``random``: nobody trained them, and answers mean nothing."""
    published: Annotated[tuple[PublishedFigure, ...], Field(strict=False, max_length=100)] = ()
    """Figures of others; none beside weights that were trained here or are random."""

    @field_validator("published")
    @classmethod
    def _of_these_weights(
        cls, published: tuple[PublishedFigure, ...], info: ValidationInfo
    ) -> tuple[PublishedFigure, ...]:
        if published and (weights := info.data.get("weights")) in _NOBODY_PUBLISHED:
            raise ValueError(
                f"what others published is of other weights than these, which are {_WORDS[weights]}; leave it out"
            )
        return published

    def about(self) -> str:
        weights = _WORDS.get(self.weights or "")
        words = (self.task, self.framework, weights and f"weights {weights}", self.description)
        return ", ".join(word for word in words if word)
