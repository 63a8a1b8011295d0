"""Which container images may run: what an operator has put on this machine, and of submissions what is on the list.

A submission that names an image (``serve.image``) names code. It runs if the image's own id, or the digest that a
registry gave it, is a line of ``images.txt`` in the data directory, whatever its tags say. Nothing is pulled: an image
that is not on this machine is refused (``INFERBENCH_PULL=missing`` fetches images of backends, and listed ones that are
named by their digest).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError, ServerError

LIST = "images.txt"
PULL = "INFERBENCH_PULL"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def allowed(folder: Path) -> frozenset[str]:
    """The digests of the list; none without one. InputError for a line that holds no digest.

    A line is a digest, or ends with one (``name@sha256:...``); what follows a ``#`` is a comment.
    """
    path = folder / LIST
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return frozenset()
    digests = set()
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].strip()
        digest = entry.rpartition("@")[2]
        if entry and not DIGEST.fullmatch(digest):
            raise InputError(
                f"{path}:{number}: {entry[:80]!r} ends with no digest (sha256: and 64 hex digits)"
            )
        if entry:
            digests.add(digest)
    return frozenset(digests)


def resolve(engine: Any, name: str, folder: Path, *, by_submission: bool) -> str:
    """The id of the image, so that a tag that moves meanwhile changes nothing.

    Raises InputError for a submission's image that is not on the list, ServerError for one that is not here.
    """
    import docker

    listed = allowed(folder) if by_submission else frozenset()
    try:
        image = engine.images.get(name)
    except docker.errors.ImageNotFound as error:
        fetchable = not by_submission or ("@" in name and name.rpartition("@")[2] in listed)
        if os.environ.get(PULL) != "missing" or not fetchable:
            raise ServerError(_missing(name)) from error
        try:
            image = engine.images.pull(name)
        except docker.errors.APIError as reason:
            raise ServerError(f"The image {name} can't be pulled: {reason.explanation or reason}") from reason
    digests = {
        str(image.id),
        *(str(text).rpartition("@")[2] for text in image.attrs.get("RepoDigests") or ()),
    }
    if by_submission and not digests & listed:
        raise InputError(
            f"the image {name} is not on this system's list of allowed images; the operator adds its digest, "
            f"{image.id}, as a line of {folder / LIST}",
            field="serve.image",
        )
    return str(image.id)


def _missing(name: str) -> str:
    return (
        f"The image {name} is not on this machine, and nothing is pulled. "
        f"Build it (see docker/) or `docker pull` it, or name another with serve.image."
    )
