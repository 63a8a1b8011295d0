"""Files of users that are read whole: a pipe or a device says that it has no bytes, and may have no end."""

from __future__ import annotations

import stat
from pathlib import Path


def check_plain(path: Path) -> None:
    """OSError where it is not there, or no plain file; a pipe would be waited for as soon as it was opened."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError("it is no plain file but a pipe or a device")


def read_plain(path: Path, most_bytes: int) -> bytes:
    """All of it. OSError where it can't be read, is no plain file, or has more bytes, whatever size it says it has."""
    check_plain(path)
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(f"it has more than the {most_bytes:,} bytes that are read")
    return data
