"""The files that a submission names: there, plain, and below the submission's own folder."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.finding import Finding


def missing_files(spec: JobBase, base_dir: Path) -> Iterator[Finding]:
    """What is wrong with the files that a job names; looks at them, reads none."""
    for file in spec.named_files():
        if problem := _problem(base_dir, file.path, file.may_be_folder):
            yield Finding((file.field,), problem)


def content_digests(specs: Iterable[JobBase], base_dir: Path) -> dict[str, str]:
    """The SHA-256 of the files whose content counts, by path; of those that can be read."""
    digests: dict[str, str] = {}
    for path in sorted({file.path for spec in specs for file in spec.named_files() if file.counts}):
        if not _problem(base_dir, path, may_be_folder=False):
            with contextlib.suppress(OSError), open(base_dir / path, "rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def changed_files(spec: JobBase, digests: Mapping[str, str]) -> Iterator[Finding]:
    """Files that are not those that the job asks for; ``digests`` as ``content_digests`` gives them."""
    for file in spec.named_files():
        digest = digests.get(file.path)
        if file.counts and digest and spec.files.get(file.path, digest) != digest:
            yield Finding(
                (file.field,),
                f"{file.path!r} has another content than the one asked for (SHA-256 {digest[:12]}, "
                f"files says {spec.files[file.path][:12]}): it changed, and would make another measurement",
            )


def _problem(base_dir: Path, value: str, may_be_folder: bool) -> str | None:
    try:
        folder = base_dir.resolve()
        target = (folder / value).resolve()
        if not target.is_relative_to(folder):
            return f"{value!r} is a link that leads out of the submission's folder"
        if not target.exists():
            return f"{value!r} does not exist in the submission's folder"
        if not (target.is_file() or (may_be_folder and target.is_dir())):
            return f"{value!r} is not a plain file"
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its links go in a circle"
        return f"{value!r} can't be looked at: {reason}"
    return None
