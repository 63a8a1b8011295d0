"""What differs in the environment of two sides: hardware, kernel, versions, code, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Differ from run to run without meaning anything.
_NOISE = frozenset({"provenance.job", "provenance.seeds"})


def differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Fields whose set of values differs between the sides' results: {field, baseline, candidate}, by field.

    A result is a plain mapping with ``environment``, ``provenance``, ``backend`` and ``model``.
    """
    before, after = _values(baseline), _values(candidate)
    return [
        {"field": path, "baseline": before.get(path), "candidate": after.get(path)}
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def _values(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for result in results:
        for part in ("environment", "provenance", "backend", "model"):
            for path, value in _leaves(result.get(part) or {}, part):
                if not any(path.startswith(noise) for noise in _NOISE):
                    seen.setdefault(path, set()).add(str(value))
    return {path: " | ".join(sorted(values)) for path, values in seen.items()}


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(item, f"{path}.{key}")]
    return [] if value is None else [(path, value)]
