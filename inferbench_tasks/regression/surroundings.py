"""What differs in the environment of two sides: hardware, kernel, versions, code, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.dotted import flatten

#: Differ from run to run without meaning anything.
_NOISE = frozenset({"provenance.job", "provenance.seeds"})


def differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Fields whose set of values differs between the sides' results: {field, baseline, candidate}, by field.

    A result is a plain mapping with ``environment``, ``provenance``, ``model``, and ``backend`` or ``engine``.
    """
    before, after = _values(baseline), _values(candidate)
    return [
        {"field": path, "baseline": before.get(path), "candidate": after.get(path)}
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]


def _values(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    values_by_field: dict[str, set[str]] = {}
    for result in results:
        for part in ("environment", "provenance", "backend", "model", "engine"):
            for path, value in flatten(result.get(part) or {}, f"{part}.").items():
                if value is not None and not any(path.startswith(noise) for noise in _NOISE):
                    values_by_field.setdefault(path, set()).add(str(value))
    return {path: " | ".join(sorted(values)) for path, values in values_by_field.items()}
