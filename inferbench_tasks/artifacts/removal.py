"""Folders that go at once: for whoever looks for one it is there whole, or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

#: Folders on their way out begin so.
DOOMED = ".doomed-"


def remove_folder(path: Path) -> None:
    """Remove a folder: it is gone at once for whoever looks for it, not half of it. OSError where that can't be."""
    doomed = path.with_name(f"{DOOMED}{os.getpid()}-{path.name}")
    os.replace(path, doomed)
    shutil.rmtree(doomed)


def remove_doomed(folder: Path) -> None:
    """What is left of removals that were cut off."""
    for path in folder.glob(f"{DOOMED}*"):
        shutil.rmtree(path, ignore_errors=True)
