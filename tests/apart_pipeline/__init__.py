"""A kind of submission whose jobs are on two hosts at once, ``kind: apart``: what one writes, the other reads.

It is a package of its own beside the tests and no part of InferBench; ``install`` puts it where Python finds it with
its entry point, as pip would.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).parent / "inferbench_apart"
ENTRY_POINTS = "[inferbench.pipelines]\napart = inferbench_apart.pipeline:APART\n"
METADATA = "Metadata-Version: 2.1\nName: inferbench-apart\nVersion: 1.0\n"


def install(folder: Path) -> Path:
    """Put the package and its entry point into a folder, which has to stand on ``PYTHONPATH``; the folder."""
    shutil.copytree(SOURCE, folder / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    described = folder / "inferbench_apart-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(METADATA)
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def submission(name: str, look: str = "other_host", more: str = "") -> str:
    """A YAML text."""
    return f"name: {name}\nkind: apart\nlook: {look}\n{more}"
