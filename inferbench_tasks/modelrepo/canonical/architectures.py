"""Build a canonical network from its stored description."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from inferbench_tasks.modelrepo.canonical.base import family_module
from inferbench_tasks.submission.model import CanonicalModel


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """The untrained network that a description of an architecture names."""
    spec: Any = TypeAdapter(CanonicalModel).validate_python(arguments)
    family = family_module(spec)
    return family.torch_module(spec) if framework == "torch" else family.keras_model(spec)
