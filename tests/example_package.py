"""A package of ``examples/`` installed beside InferBench, as its users install their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def installed_beside(name: str, folders: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of an environment in which ``examples/NAME`` is found, and InferBench from any folder."""
    target = folders.mktemp("site")
    source = folders.mktemp("source") / "example"
    shutil.copytree(ROOT / "examples" / name, source)  # its build must not write into ours
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", "--target", str(target), str(source)], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(target), str(ROOT)))}
