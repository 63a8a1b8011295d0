"""Versions of a runtime beside that of InferBench's environment: the packages of one come before InferBench's own.

The server is the same program, with the same interpreter, numpy and web server; what lies between two of its versions
is the runtime's. Such an environment holds the runtime alone, of pinned hashes, and is made on first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inferbench_tasks.backends.environments import LOCKS, Environment, site_packages
from inferbench_tasks.errors import ServerError

#: Those that InferBench brings: (package, version), at least four minor versions before the one of ``constraints.txt``.
#: ``make hashes`` makes their locks.
BROUGHT = (("onnxruntime", "1.27.0"),)
#: What the wheels of these take on disk at most, for whoever waits (1.27.0 takes 57).
MEGABYTES = 70
_ASK_S = 120
_ASK = (
    "import importlib, importlib.metadata, sys; name = sys.argv[1]; "
    "print(importlib.metadata.version(name), importlib.import_module(name).__version__)"
)


@dataclass(frozen=True)
class Runtime:
    """The version of a package that has to serve. ``environment``: None where InferBench's own has it, or an image."""

    package: str
    version: str
    environment: Environment | None

    @property
    def words(self) -> str:
        """``onnxruntime 1.27.0``."""
        return f"{self.package} {self.version}"


def lock_of(package: str, version: str) -> Path:
    """The file with its hashes."""
    return LOCKS / f"{name_of(package, version)}.txt"


def name_of(package: str, version: str) -> str:
    """``onnxruntime-1.27``."""
    return f"{package}-{'.'.join(version.split('.')[:2])}"


def lines_of(lock: Path) -> list[str]:
    """A lock's packages, each on one line with its hashes."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if "==" in line]


def environment(
    name: str, package: str, version: str, pinned: tuple[str, ...], megabytes: int
) -> Environment:
    """One that holds ``pinned``, and does not count as made before it has told that version of the package."""
    return Environment(
        name, (f"{package}=={version}",), megabytes, pinned=pinned, finish=partial(_require, package, version)
    )


def search_path(folder: Path) -> str:
    """``PYTHONPATH`` of a process that has an environment's packages before InferBench's own."""
    own = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(site_packages(folder)), *([own] if own else [])])


def _require(package: str, version: str, folder: Path) -> None:
    """ServerError where what is imported from there is not that version."""
    process = subprocess.run(
        [sys.executable, "-c", _ASK, package],
        env={**os.environ, "PYTHONPATH": search_path(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=_ASK_S,
    )
    told = process.stdout.split()
    if process.returncode or told != [version, version]:
        end = "\n".join(process.stderr.strip().splitlines()[-8:]) or f"it tells {' and '.join(told)}"
        raise ServerError(f"{package} {version} was installed into {folder}, and can't be used: {end}")
