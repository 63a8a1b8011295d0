"""``kind: framework``: one version of a framework, and each place where it runs."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from inferbench_tasks.contracts.spec import IMAGE_PATTERN, Sha256, Slug, Spec
from inferbench_tasks.manifests.kinds.base import AnyVersionText, Manifest

_PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._!+-]*(?: --hash=sha256:[0-9a-f]{64})+"
)


def _pinned(line: str) -> str:
    """A line of a lock: it names one version of one package and its files, and no other place than the index."""
    line = " ".join(line.replace("\\\n", " ").split())
    if not _PINNED.fullmatch(line):
        raise ValueError(
            f"{line[:80]!r} is no pinned package; allowed is NAME==VERSION --hash=sha256:..., with one hash or more"
        )
    return line


PinnedText = Annotated[str, Field(max_length=20_000), AfterValidator(_pinned)]


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
    lock_sha256: Sha256 | None = None
    """Of the file that has all that is installed there, of one that a backend makes."""
    packages: Annotated[tuple[PinnedText, ...], Field(strict=False, max_length=200)] = ()
    """All that is installed there, in place of such a file: ``NAME==VERSION --hash=sha256:...``, as pip and uv write
    it. What is not among them is InferBench's own. Only wheels are installed."""
    megabytes: Annotated[int, Field(ge=1, le=20_000)] = 100
    """What that takes on disk, for whoever waits for it."""

    @model_validator(mode="after")
    def _one_lock(self) -> OwnEnvironment:
        if (self.lock_sha256 is None) == (not self.packages):
            raise ValueError(
                "an environment has packages, or lock_sha256 where a backend makes it; one of both"
            )
        return self


class ContainerImage(Spec):
    """An image of one architecture and accelerator, by digest. A job that is to run in it names it (``serve.image``, or
    its stack's settings). None is built in: InferBench publishes no image, and those that are built here, or that
    `tensorflow_serving` takes by its tag, have a digest that no file here can know before."""

    kind: Literal["container"]
    image: Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=300)]
    """Its name."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """Of the image."""
    arch: Slug = "x86_64"
    """The architecture."""
    accelerator: Slug = "cpu"
    """``cpu``, ``cuda``."""

    @property
    def pinned(self) -> str:
        """As a submission names it: with the digest."""
        return f"{self.image.partition('@')[0]}@{self.digest}"


PlaceSpec = Annotated[Here | OwnEnvironment | ContainerImage, Field(discriminator="kind")]


class FrameworkManifest(Manifest):
    """A version of a framework; the manifest's version is the framework's own."""

    kind: Literal["framework"]
    version: AnyVersionText
    """The framework's own version."""
    runs: Annotated[tuple[PlaceSpec, ...], Field(strict=False, min_length=1, max_length=50)]
    """Where it runs."""

    @model_validator(mode="after")
    def _brings_it(self) -> FrameworkManifest:
        """An environment of packages has this version of the framework among them."""
        for place in self.runs:
            pin = f"{self.name}=={self.version}"
            if isinstance(place, OwnEnvironment) and place.packages:
                pins = [line.split()[0] for line in place.packages]
                if pin not in pins:
                    raise ValueError(f"the environment {place.name} has no {pin}; it has {', '.join(pins)}")
        return self

    @property
    def runs_here(self) -> bool:
        """Whether it is in InferBench's own environment."""
        return any(isinstance(place, Here) for place in self.runs)

    @property
    def pinned(self) -> OwnEnvironment | None:
        """The environment of packages that it runs in; None where there is none."""
        environments = (place for place in self.runs if isinstance(place, OwnEnvironment))
        return next((place for place in environments if place.packages), None)

    @property
    def places(self) -> list[str]:
        """``here``, ``container``, or the name of an environment, as they stand in ``runs``."""
        return [place.name if isinstance(place, OwnEnvironment) else place.kind for place in self.runs]

    def about(self) -> str:
        return ", ".join(self.places)
