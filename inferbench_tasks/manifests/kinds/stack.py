"""``kind: stack``: framework, format, backend and its settings, by one name."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator, model_validator

from inferbench_tasks.contracts.spec import Slug
from inferbench_tasks.manifests.kinds.base import Manifest, RequirementText
from inferbench_tasks.submission.conversion import Precision
from inferbench_tasks.submission.schema import ServeSpec

#: Fields of ``serve`` that are no settings of a stack: they have a place of their own.
NO_SETTINGS = ("backend", "device", "devices")


class StackManifest(Manifest):
    """What serves a model: framework, format, backend, settings."""

    kind: Literal["stack"]
    framework: RequirementText | None = None
    """The runtime, with the versions that fit: ``onnxruntime>=1.20``."""
    format: Slug
    """As ``convert.format`` of a submission."""
    precision: Precision = "fp32"
    """As ``convert.precision``."""
    backend: Slug
    """As ``serve.backend``."""
    settings: dict[str, Any] = {}
    """Further fields of ``serve``: ``{threads: 2, batching: {max_batch_size: 8}}``. Those that stand here can't be said
    again by a submission that names the stack."""

    @field_validator("settings")
    @classmethod
    def _no_other_place(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if wrong := [name for name in NO_SETTINGS if name in settings]:
            raise ValueError(
                f"{', '.join(wrong)}: no setting; the backend stands beside, the device is the submission's"
            )
        return settings

    @model_validator(mode="after")
    def _as_serve(self) -> StackManifest:
        ServeSpec.model_validate({"backend": self.backend, **self.settings})
        return self

    def about(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.backend}, {self.format} {self.precision}" + (f", {settings}" if settings else "")
