"""A step as something that can be run: its code, its packages, its submission.

A user's repository stays as it is: a commit is unpacked elsewhere. Where it holds InferBench itself, its code runs, as
a side of a night; else this InferBench runs the submission of that commit, with the commit's folder first on the path
(models, traces and code of one's own).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from filelock import FileLock

from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.regression.bisect.steps import Step, git
from inferbench_tasks.regression.sides import PACKAGE, Side, own_checkout, side_of

BUILD_LIMIT_S = 3600.0


class UnbuildableError(InferBenchError):
    """A step can't be built or run; the message says why. It is skipped."""


@dataclass(frozen=True)
class Build:
    """``side``: which code runs ``file``; ``env``: beside the side's own variables."""

    side: Side
    file: Path
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Builder:
    """Builds steps below ``folder``; what was built once is kept. ``command``: run by a shell in each checkout."""

    file: Path
    folder: Path
    data_dir: Path
    command: str | None = None

    def build(self, step: Step) -> Build:
        """Raises UnbuildableError."""
        try:
            tree = self._checkout(step)
            paths = [self._packages(step)] if step.packages else []
            side, file = self._side(step, tree)
        except InputError as error:
            raise UnbuildableError(str(error)) from error
        if tree is not None and not _is_inferbench(tree):
            paths.append(str(tree))
        identity = hashlib.sha256(
            f"{side.id}\n{step.model_dump_json()}\n{self.command}".encode()
        ).hexdigest()[:16]
        env = {**step.env}
        if paths:
            env["PYTHONPATH"] = os.pathsep.join([*paths, side.tree])
        return Build(side.model_copy(update={"id": identity}), self._with_image(step, file), env)

    def _checkout(self, step: Step) -> Path | None:
        if step.commit is None:
            if step.tree is not None and not Path(step.tree).is_dir():
                raise UnbuildableError(f"{step.tree} is no folder")
            return Path(step.tree) if step.tree else None
        tree = (
            self.folder / "trees" / hashlib.sha256(f"{step.commit}\n{self.command}".encode()).hexdigest()[:16]
        )
        with _kept(tree) as partial:
            if partial:
                archive = partial.with_suffix(".tar")
                git(Path(step.repo or "."), "archive", "--format=tar", f"--output={archive}", step.commit)
                with tarfile.open(archive) as packed:
                    packed.extractall(partial, filter="data")
                archive.unlink()
                if self.command:
                    _ran(["sh", "-c", self.command], "the build command", cwd=partial)
        return tree

    def _packages(self, step: Step) -> str:
        python = step.python or sys.executable
        digest = hashlib.sha256("\n".join([python, *step.packages]).encode()).hexdigest()[:16]
        folder = self.folder / "packages" / digest
        with _kept(folder) as partial:
            if partial:
                pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
                _ran(
                    [*pip, "--target", str(partial), *step.packages], f"installing {' '.join(step.packages)}"
                )
        return str(folder)

    def _side(self, step: Step, tree: Path | None) -> tuple[Side, Path]:
        file = self.file
        if tree is None:
            return side_of(own_checkout(), step.python, self.data_dir), file
        root = Path(step.repo) if step.commit and step.repo else tree
        inside = tree / file.relative_to(root) if file.is_relative_to(root) else None
        if _is_inferbench(tree):
            side = side_of(tree, step.python, self.data_dir)
            return side.model_copy(update={"git_sha": step.commit or side.git_sha}), file
        if inside is not None:
            if not inside.is_file():
                raise UnbuildableError(f"the submission {file.relative_to(root)} is not there in {step.name}")
            file = inside
        return side_of(own_checkout(), step.python, self.data_dir), file

    def _with_image(self, step: Step, file: Path) -> Path:
        if step.image is None:
            return file
        submission = yaml.safe_load(file.read_text(encoding="utf-8"))
        submission["serve"] = {**(submission.get("serve") or {}), "image": step.image}
        text = yaml.safe_dump(submission, sort_keys=False)
        # Beside the original: it names files by relative paths. Not .yaml: it must not become a night.
        variant = file.with_name(f".{file.stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.bisect")
        if not variant.exists():
            variant.write_text(text, encoding="utf-8")
        return variant


def _is_inferbench(tree: Path) -> bool:
    return (tree / PACKAGE / "cli" / "main.py").exists()


class _kept:
    """A folder that is made as a whole or not at all: a partial one to fill, None where it is there already."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._partial = folder, folder.with_name(f".{folder.name}.part")
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{folder}.lock")

    def __enter__(self) -> Path | None:
        self._lock.acquire()
        if self._folder.exists():
            return None
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir()
        return self._partial

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and self._partial.exists():
                self._partial.rename(self._folder)
        finally:
            shutil.rmtree(self._partial, ignore_errors=True)
            self._lock.release()


def _ran(command: list[str], what: str, cwd: Path | None = None) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=True, cwd=cwd)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise UnbuildableError(f"{what} failed: {reason[-500:]}") from error
