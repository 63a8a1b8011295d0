"""Whether what is set side by side was served by different versions of one server: then a part of what lies between
may be the version's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inferbench_tasks.analysis.recommend.candidates import Candidate


def other_version(own: Candidate, reference: Candidate) -> str | None:
    """Both versions in words; None where they are the same, not known, or of two servers, which their rows name."""
    (kind, version), (other_kind, other) = _server(own), _server(reference)
    if kind != other_kind or None in (version, other) or version == other:
        return None
    return f"{kind} {version}, on the reference {other}: what lies between the two may be the version's"


def versions_notes(candidates: Mapping[str, Candidate]) -> list[str]:
    """``candidates``: by what they are called. A sentence for each server that ran in several versions."""
    by_kind: dict[str, dict[str, list[str]]] = {}
    for name, candidate in candidates.items():
        kind, version = _server(candidate)
        if version is not None:
            by_kind.setdefault(kind, {}).setdefault(version, []).append(name)
    return [
        f"{kind} ran in {len(versions)} versions, and what lies between these may be the version's: {_told(versions)}"
        for kind, versions in by_kind.items()
        if len(versions) > 1
    ]


def _server(candidate: Candidate) -> tuple[str, str | None]:
    backend: dict[str, Any] = candidate.documents[0].get("backend") or {}
    version = backend.get("version")
    return str(backend.get("kind")), None if version is None else str(version)


def _told(versions: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(f"{version}: {', '.join(names)}" for version, names in versions.items())
