"""How much of the disk a file or folder takes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: Of the sizes that the kernel tells, whatever the file system's are.
_SECTOR_BYTES = 512


def allocated_bytes(path: Path) -> int:
    """What a file, or all that is in a folder, takes of the disk; links count as links. 0 for what is not there."""
    total = 0
    folders = [path]
    while folders:
        here = folders.pop()
        with suppress(OSError):  # removed meanwhile, or not ours
            total += here.lstat().st_blocks * _SECTOR_BYTES
            if here.is_symlink() or not here.is_dir():
                continue
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * _SECTOR_BYTES
    return total
