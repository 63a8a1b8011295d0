"""``kind: dataset``: labelled or unlabelled samples, where they come from, and what they are good for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import Sha256, Slug
from inferbench_tasks.manifests.kinds.base import Manifest, Text

Samples = Annotated[int, Field(ge=1, le=1_000_000_000)]


class DatasetManifest(Manifest):
    """A data set: its source by hash, its parts and their sizes, its labels."""

    kind: Literal["dataset"]
    source: Text
    """Where it comes from, in words."""
    files: Annotated[dict[Text, Sha256], Field(max_length=100)] = {}
    """SHA-256 of its files, by name; left out where they are not known."""
    splits: Annotated[dict[Slug, Samples], Field(max_length=20)] = {}
    """Samples of each part: ``{train: 1347, test: 450}``; a part of which the size depends on where it is made is left
    out."""
    labelled: bool = False
    """Whether each sample has a label."""
    classes: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    """How many different labels there are."""
    labels: Annotated[tuple[Text, ...], Field(strict=False, max_length=100_000)] = ()
    """The name of each class by its number, from 0; left out where classes have numbers only."""
    generated: bool = False
    """Whether the samples are made by a program, and were never seen in the world."""
    samples_sha256: Sha256 | None = None
    """Of all samples and what is right of each: where those of a data set of InferBench are others, an evaluation is
    refused."""
    split_sha256: Annotated[dict[Slug, Sha256], Field(max_length=20)] = {}
    """The same of the other splits: ``samples_sha256`` is of the one that is asked unless another is named."""
    metrics: Annotated[tuple[Slug, ...], Field(strict=False, max_length=50)] = ()
    """What can be measured on it: ``inferbench metrics`` and the measures of quality have the formulas."""

    def record(self) -> dict[str, str]:
        """Which one it is, as results keep it."""
        return {"name": self.name, "version": self.version, "digest": self.digest}

    def about(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.splits.items()) or self.source
