"""What every manifest says, whatever its kind; its identity and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from inferbench_tasks.contracts.spec import Slug, Spec
from inferbench_tasks.contracts.versions import Constraint, Requirement, any_version, semantic_version
from inferbench_tasks.registry import Registry

#: Part of what is hashed; raised when the canonical form itself changes.
FORM = "inferbench-manifest-1"


def _constraint(text: str) -> str:
    return Constraint.parse(text).text


def _requirement(text: str) -> str:
    Requirement.parse(text)
    return text


VersionText = Annotated[str, Field(max_length=60), AfterValidator(semantic_version)]
AnyVersionText = Annotated[str, Field(max_length=60), AfterValidator(any_version)]
ConstraintText = Annotated[str, Field(max_length=200), AfterValidator(_constraint)]
RequirementText = Annotated[str, Field(max_length=200), AfterValidator(_requirement)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Manifest(Spec):
    """A thing by name and version. A version never changes: what differs has another one."""

    kind: Slug
    """What it is of."""
    name: Slug
    """By which submissions and other manifests name it."""
    version: VersionText
    """Three numbers; a constraint such as ``^1.2`` is resolved to the newest that fits."""
    description: Annotated[str, Field(max_length=2000)] = ""
    """For people."""
    licence: Annotated[str, Field(max_length=300)] | None = None
    """Under which it may be used."""
    references: Annotated[tuple[Text, ...], Field(strict=False, max_length=50)] = ()
    """Papers and pages that describe it."""

    @property
    def id(self) -> str:
        """``model:digits@1.0.0``, unique."""
        return identity(self.kind, self.name, self.version)

    @property
    def digest(self) -> str:
        """SHA-256 of its content, as 64 hex digits: of canonical JSON without what has its default."""
        text = json.dumps(self.content(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(f"{FORM}\n{text}".encode()).hexdigest()

    def content(self) -> dict[str, Any]:
        """As plain values without what has its default; the same whichever way it was written."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def row(self) -> dict[str, Any]:
        """The columns of a list; a kind adds what tells one from another."""
        return {
            "kind": self.kind,
            "name": self.name,
            "version": self.version,
            "digest": self.digest[:12],
            "about": self.about(),
        }

    def about(self) -> str:
        """A few words for a list."""
        return self.description


def identity(kind: str, name: str, version: str) -> str:
    """The id of the manifest of that kind, name and version."""
    return f"{kind}:{name}@{version}"


KINDS: Registry[type[Manifest]] = Registry(
    "kind of manifest",
    "inferbench.manifests",
    {
        "model": "inferbench_tasks.manifests.kinds.model:ModelManifest",
        "framework": "inferbench_tasks.manifests.kinds.framework:FrameworkManifest",
        "dataset": "inferbench_tasks.manifests.kinds.dataset:DatasetManifest",
        "scenario": "inferbench_tasks.manifests.kinds.scenario:ScenarioManifest",
        "stack": "inferbench_tasks.manifests.kinds.stack:StackManifest",
    },
)
