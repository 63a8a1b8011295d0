"""The two sides of a session: which code, run by which Python; and how a side is kept for later nights.

A side is known by its code's content, not by a commit: it works without git, and an edit that nobody committed is
another side. A side that is measured is copied, so that tonight's candidate can be the baseline of the nights to come
after the checkout has moved on. Third-party packages are those of ``python``: to compare these, keep the older
environment and name its interpreter.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ConfigDict

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError

PACKAGE = "inferbench_tasks"
#: What a side needs of a checkout: the code, and the tables of networks, hardware, prices.
PARTS = (PACKAGE, "configs")
_IGNORED = ("__pycache__", "*.pyc", "*.egg-info", "nightly", "submissions")


class Side(BaseModel):
    """``id``: of the content; ``tree``: the folder that holds the package; ``python``: what runs it."""

    model_config = ConfigDict(frozen=True)

    id: str
    tree: str
    python: str
    git_sha: str | None = None

    def environment(self, data_dir: Path, perfdb_uri: str) -> dict[str, str]:
        """For a process of this side: its own code and caches, the common PerfDB and machine."""
        return {
            **os.environ,
            "PYTHONPATH": self.tree,
            # `python -m` would take the package from the working directory first: nights are started in a checkout.
            "PYTHONSAFEPATH": "1",
            settings.DATA_DIR: str(data_dir / "regression" / "sides" / self.id),
            settings.MACHINE_DIR: str(settings.machine_dir(data_dir)),
            settings.PERFDB_URI: perfdb_uri,
        }


def side_of(tree: Path, python: str | None, data_dir: Path) -> Side:
    """The side that a checkout holds now, copied; the same content is copied once.

    Raises InputError if the folder holds no InferBench, or the interpreter does not run it.
    """
    if not (tree / PACKAGE / "cli" / "main.py").exists():
        raise InputError(f"{tree} holds no InferBench: {PACKAGE}/ is missing there.")
    python = python or sys.executable
    identity = hashlib.sha256(f"{content_digest(tree)}\n{_packages(python)}".encode()).hexdigest()[:16]
    folder = data_dir / "regression" / "trees" / identity
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            partial = folder.with_name(f".{identity}.part")
            shutil.rmtree(partial, ignore_errors=True)
            for part in PARTS:
                if (tree / part).is_dir():
                    shutil.copytree(tree / part, partial / part, ignore=shutil.ignore_patterns(*_IGNORED))
            partial.rename(folder)
    return Side(id=identity, tree=str(folder), python=python, git_sha=_git_sha(tree))


def own_checkout() -> Path:
    """The folder of the code that runs now."""
    return Path(__file__).resolve().parents[2]


def content_digest(tree: Path) -> str:
    """SHA-256 over names and contents of what a side needs."""
    digest = hashlib.sha256()
    for part in PARTS:
        for path in sorted(p for p in (tree / part).rglob("*") if p.is_file()):
            relative = path.relative_to(tree)
            if "__pycache__" in relative.parts or {"nightly", "submissions"} & set(relative.parts[1:2]):
                continue
            digest.update(f"{relative}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _packages(python: str) -> str:
    code = (
        "from importlib.metadata import distributions as d; "
        "print(*sorted({f'{x.name}=={x.version}' for x in d()}), sep='\\n')"
    )
    try:
        process = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"The interpreter {python} can't be run: {error}") from error
    return process.stdout


def _git_sha(tree: Path) -> str | None:
    try:
        process = subprocess.run(
            ["git", "-C", str(tree), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None  # no git, or no checkout
    return process.stdout.strip()
