"""A second kind of submission, ``kind: probe``: two stages on a device that do nothing but wait.

It is a package of its own beside the tests and no part of InferBench; ``install`` puts it where Python finds it with
its entry point, as pip would.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).parent / "inferbench_probe"
ENTRY_POINTS = "[inferbench.pipelines]\nprobe = inferbench_probe.pipeline:PROBE\n"
METADATA = "Metadata-Version: 2.1\nName: inferbench-probe\nVersion: 1.0\n"


def install(folder: Path) -> Path:
    """Put the package and its entry point into a folder, which has to stand on ``PYTHONPATH``; the folder."""
    shutil.copytree(SOURCE, folder / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    described = folder / "inferbench_probe-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(METADATA)
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def submission(name: str, seconds: float = 0.0, more: str = "") -> str:
    """A YAML text."""
    return f"name: {name}\nkind: probe\nseconds: {seconds}\n{more}"
