"""To what a manifest's name was resolved when a submission was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from inferbench_tasks.contracts.spec import Sha256, Slug, Spec
from inferbench_tasks.dotted import value_at


class ManifestRecord(Spec):
    """A manifest that a submission named. Filled in on reading; where it is given, it has to be true."""

    kind: Slug
    """Of the manifest."""
    name: Slug
    """Its name."""
    asked: Annotated[str, Field(max_length=300)]
    """As it was asked for: ``digits@^1``."""
    version: Annotated[str, Field(max_length=60)]
    """What that was resolved to."""
    digest: Sha256
    """Of the manifest of that version."""
    wanted_by: Annotated[str, Field(max_length=300)] = ""
    """Of a framework: the manifest that needs it, as ``stack:onnxruntime@1.0.0``."""
    sets: dict[str, Any] = {}
    """What it put into the submission, by dotted path."""

    @property
    def id(self) -> str:
        """``model:digits@1.0.0``."""
        return f"{self.kind}:{self.name}@{self.version}"

    def of(self, job: Mapping[str, Any]) -> bool:
        """Whether a job (as plain values) has all that it put in."""
        return all(_within(value, value_at(job, path)) for path, value in self.sets.items())


def of_job(records: Iterable[ManifestRecord], job: Mapping[str, Any]) -> list[ManifestRecord]:
    """Those of a submission's that one of its jobs is made of: of each kind the one that says most of it."""
    fitting = [record for record in records if record.of(job)]
    most: dict[str, int] = {}
    for record in fitting:
        if not record.wanted_by:
            most[record.kind] = max(most.get(record.kind, 0), _leaves(record.sets))
    own = [record for record in fitting if not record.wanted_by and _leaves(record.sets) == most[record.kind]]
    ids = {record.id for record in own}
    return own + [record for record in fitting if record.wanted_by in ids]


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(_within(value, whole.get(name)) for name, value in part.items())
    if isinstance(part, (list, tuple)) and isinstance(whole, (list, tuple)):
        return list(part) == list(whole)
    return bool(part == whole)


def _leaves(value: Any) -> int:
    return sum(_leaves(item) for item in value.values()) if isinstance(value, Mapping) else 1
