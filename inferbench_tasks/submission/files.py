"""The files that a submission names: there, plain, and below the submission's own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferbench_tasks.submission.check import Finding
from inferbench_tasks.submission.schema import JobSpec


def missing_files(spec: JobSpec, base_dir: Path) -> Iterator[Finding]:
    """What is wrong with the files that a job names; looks at them, reads none."""
    for field, value, may_be_folder in _named(spec):
        if problem := _problem(base_dir, value, may_be_folder):
            yield Finding((field,), problem)


def _named(spec: JobSpec) -> Iterator[tuple[str, str, bool]]:
    path: Any
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
    if isinstance(path := getattr(spec.load.arrivals, "path", None), str):
        yield "load.arrivals.path", path, False


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
