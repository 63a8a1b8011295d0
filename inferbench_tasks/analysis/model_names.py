"""What tells models of one name apart that stand in one table: their framework, then their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: Where it stands in a result.
PATHS = ("model.name", "model.framework", "model.digest", "model.source_digest")


class Named(NamedTuple):
    """``digest``: of the source, which several files that are served can be made of; of the file where nobody knows."""

    name: str | None
    framework: str | None
    digest: str | None


def of_document(document: Mapping[str, Any]) -> Named:
    """The model of a result, a plain mapping."""
    model = document.get("model") or {}
    return Named(model.get("name"), model.get("framework"), model.get("source_digest") or model.get("digest"))


def apart(models: Iterable[Named]) -> dict[Named, str]:
    """``torch``; ``torch, 1a2b3c4d`` where a framework has several of that name; "" of a name that one model has."""
    told: dict[Named, str] = {}
    by_name: dict[str | None, list[Named]] = {}
    for model in dict.fromkeys(models):
        by_name.setdefault(model.name, []).append(model)
    for alike in by_name.values():
        frameworks = [model.framework for model in alike]
        for model in alike:
            parts = [model.framework] if len(set(frameworks)) > 1 else []
            if frameworks.count(model.framework) > 1 and model.digest:
                parts.append(model.digest[:8])
            told[model] = ", ".join(filter(None, parts))
    return told
