"""The files that a submission names: there, plain, and below the submission's own folder."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec


def missing_files(spec: JobSpec, base_dir: Path) -> Iterator[Finding]:
    """What is wrong with the files that a job names; looks at them, reads none."""
    for field, value, may_be_folder in _named(spec):
        if problem := _problem(base_dir, value, may_be_folder):
            yield Finding((field,), problem)


def content_digests(specs: Iterable[JobSpec], base_dir: Path) -> dict[str, str]:
    """The SHA-256 of the traces that the jobs replay, by path; of those that can be read."""
    digests: dict[str, str] = {}
    for path in sorted({trace for spec in specs if (trace := _trace(spec))}):
        if not _problem(base_dir, path, may_be_folder=False):
            with contextlib.suppress(OSError), open(base_dir / path, "rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def changed_files(spec: JobSpec, digests: Mapping[str, str]) -> Iterator[Finding]:
    """A trace that is not the one that the job asks for; ``digests`` as ``content_digests`` gives them."""
    if path := _trace(spec):
        digest = digests.get(path)
        if digest and spec.files.get(path, digest) != digest:
            yield Finding(
                ("load.arrivals.path",),
                f"{path!r} has another content than the one asked for (SHA-256 {digest[:12]}, "
                f"files says {spec.files[path][:12]}): it changed, and would make another measurement",
            )


def _trace(spec: JobSpec) -> str | None:
    path = getattr(spec.load.arrivals, "path", None)
    return path if isinstance(path, str) else None


def _named(spec: JobSpec) -> Iterator[tuple[str, str, bool]]:
    if spec.model.kind == "file":
        yield "model.path", spec.model.path, True
        if spec.model.module is not None:
            yield "model.module", spec.model.module, False
    if spec.requests.path is not None:
        yield "requests.path", spec.requests.path, True
    for part in ("before", "after"):
        for at, step in enumerate(getattr(spec.processors, part, ())):
            if isinstance(path := step.settings.get("path"), str):
                yield f"processors.{part}.{at}.settings.path", path, False
    if trace := _trace(spec):
        yield "load.arrivals.path", trace, False


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
