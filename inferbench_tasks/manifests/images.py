"""Versions of frameworks in container images: which one an image brings, and what helps who asks for one that nothing
else has.

A job runs in an image where it says so (``serve: {launcher: container, image: NAME@DIGEST}``, or its stack does): a
version that is asked for never leads into one by itself.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence

from packaging.version import Version

from inferbench_tasks.contracts.versions import Constraint
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.kinds.framework import ContainerImage, FrameworkManifest

Manifests = Sequence[FrameworkManifest]
Pair = tuple[FrameworkManifest, ContainerImage]


def version_in(
    manifests: Manifests, framework: str, constraint: Constraint, image: str | None
) -> FrameworkManifest | None:
    """The version of a framework that an image brings, by its digest; None where nobody says, and any will do.

    ``manifests``: of the framework. ``image``: as a job names it; None: the backend's own. InputError where a version
    is asked for that the image does not bring, or may not bring, of another architecture than this machine's, and where
    two versions claim to be in it.
    """
    digest = image.rpartition("@")[2] if image else None
    brought = [pair for pair in _images(manifests) if pair[1].digest == digest]
    fitting = [pair for pair in brought if constraint.allows(Version(pair[0].version))]
    if len({manifest.version for manifest, _ in _of_this_machine(brought)}) > 1:
        raise InputError(
            f"manifests of {framework} say that the image {image} brings {_versions(brought)}, and it has one of them; "
            "take it out of runs in the others"
        )
    if here := _of_this_machine(fitting):
        return here[0][0]
    if not brought and constraint.takes_any:
        return None
    if fitting:
        reason = f"the image {image} is of {fitting[0][1].arch}, and this machine is {platform.machine()}"
    elif brought:
        reason = f"the image {image} brings {framework} {_versions(brought)}"
    else:
        own = f"the image {image}" if image else "the backend's own image"
        reason = f"no manifest says which version of {framework} {own} brings"
    raise InputError(f"{reason}; {_what_fits(manifests, framework, constraint)}")


def only_in_images(manifests: Manifests, constraint: Constraint) -> str:
    """What helps whoever asks for a version that nothing but an image has, to stand behind "there are: ..."; "" where
    there is none."""
    pairs = _images(each for each in manifests if all(place.kind == "container" for place in each.runs))
    fitting = [pair for pair in pairs if constraint.allows(Version(pair[0].version))]
    if not fitting:
        return ""
    words = f"; {_versions(fitting)} is in a container's image alone"
    if here := _of_this_machine(fitting):
        manifest, place = here[0]
        return (
            f"{words}: to serve {manifest.version} from it, say serve: {{launcher: container, image: {place.pinned}}} "
            "in place of the framework"
        )
    arches = ", ".join(sorted({place.arch for _, place in fitting}))
    return f"{words}, of {arches}, and this machine is {platform.machine()}"


def _what_fits(manifests: Manifests, framework: str, constraint: Constraint) -> str:
    fitting = [pair for pair in _images(manifests) if constraint.allows(Version(pair[0].version))]
    if here := _of_this_machine(fitting):
        images = ", ".join(
            f"{place.pinned} ({manifest.version}, {place.accelerator})" for manifest, place in here
        )
        return f"images of {platform.machine()} with a version that fits: {images}; name one as image"
    return (
        f"write a manifest of {framework} under configs/manifests whose runs has the image with its digest "
        f"({{kind: container, image, digest, arch: {platform.machine()}}}), or use launcher: process"
    )


def _of_this_machine(pairs: Iterable[Pair]) -> list[Pair]:
    """The newest version first."""
    here = [pair for pair in pairs if pair[1].arch == platform.machine()]
    return sorted(here, key=lambda pair: Version(pair[0].version), reverse=True)


def _images(manifests: Iterable[FrameworkManifest]) -> list[Pair]:
    return [
        (manifest, place)
        for manifest in manifests
        for place in manifest.runs
        if isinstance(place, ContainerImage)
    ]


def _versions(pairs: Iterable[Pair]) -> str:
    return ", ".join(dict.fromkeys(manifest.version for manifest, _ in pairs))
