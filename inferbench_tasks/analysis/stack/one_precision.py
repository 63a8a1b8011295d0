"""One content of a model has one precision, as its newest run calls it: earlier versions called each file fp32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inferbench_tasks.analysis.stack.profile import Profile

#: Of the digest of each content.
Precisions = Mapping[Any, Any]


def precisions(runs: Iterable[tuple[Any, Any]]) -> Precisions:
    """``runs``: digest and precision of each, the oldest first; those without a digest tell nothing of another."""
    return {digest: precision for digest, precision in runs if digest is not None}


def called(profile: Profile, of: Precisions) -> Profile:
    """The profile, its precision as ``of`` has it."""
    digest = profile.about.get("digest")
    return (
        replace(profile, about=profile.about | {"precision": of[digest]})
        if digest is not None and digest in of
        else profile
    )


def called_alike(profiles: Sequence[Profile]) -> list[Profile]:
    """Each as the newest among them of its content is called."""
    abouts = sorted((profile.about for profile in profiles), key=lambda about: str(about.get("at") or ""))
    of = precisions((about.get("digest"), about.get("precision")) for about in abouts)
    return [called(profile, of) for profile in profiles]
