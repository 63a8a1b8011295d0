"""Temporary folders of what stages start, which are gone at the latest when the next one is made.

A folder is locked by the process that made it; the kernel gives the lock back when that process ends, however it does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "inferbench-child-"
#: Between the making of a folder and its lock it looks like one that was left: so young ones stay.
YOUNG_S = 60.0


class Scratch:
    """One temporary folder, mode 700."""

    def __init__(self) -> None:
        remove_left()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """The folder with all that is in it; again is nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_left() -> None:
    """Remove the folders whose maker was killed; those of other users and of living processes stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # removed meanwhile, another's, or in use
            status = path.lstat()
            young = time.time() - status.st_mtime < YOUNG_S
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or young:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
