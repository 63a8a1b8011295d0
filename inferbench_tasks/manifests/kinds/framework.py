"""``kind: framework``: one version of a framework, and each place where it runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import IMAGE_PATTERN, Sha256, Slug, Spec
from inferbench_tasks.manifests.kinds.base import AnyVersionText, Manifest


class Here(Spec):
    """InferBench's own environment."""

    kind: Literal["here"]
    package: Slug
    """The distribution that brings it."""
    hashes: Annotated[tuple[Sha256, ...], Field(strict=False, max_length=1000)] = ()
    """Of the distribution's files, of which one was installed."""


class OwnEnvironment(Spec):
    """An environment of pinned hashes that InferBench makes on first use."""

    kind: Literal["environment"]
    name: Slug
    """The environment."""
    lock_sha256: Sha256
    """Of the file that has all that is installed there."""


class ContainerImage(Spec):
    """An image of one architecture and accelerator, by digest."""

    kind: Literal["container"]
    image: Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=300)]
    """Its name."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """Of the image."""
    arch: Slug = "x86_64"
    """The architecture."""
    accelerator: Slug = "cpu"
    """``cpu``, ``cuda``."""


PlaceSpec = Annotated[Here | OwnEnvironment | ContainerImage, Field(discriminator="kind")]


class FrameworkManifest(Manifest):
    """A version of a framework; the manifest's version is the framework's own."""

    kind: Literal["framework"]
    version: AnyVersionText
    """The framework's own version."""
    runs: Annotated[tuple[PlaceSpec, ...], Field(strict=False, min_length=1, max_length=50)]
    """Where it runs."""

    @property
    def places(self) -> list[str]:
        """``here``, ``container``, or the name of an environment, as they stand in ``runs``."""
        return [place.name if isinstance(place, OwnEnvironment) else place.kind for place in self.runs]

    def about(self) -> str:
        return ", ".join(self.places)
