"""Folders that go at once: for whoever looks for one it is there whole, or not at all."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from inferbench_tasks.folder_tree import remove_tree

log = logging.getLogger(__name__)

#: Folders on their way out begin so.
DOOMED = ".doomed-"


def remove_folder(path: Path) -> None:
    """Remove a folder: it is gone at once for whoever looks for it, not half of it. OSError where that can't be, and
    for a link.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link stands there, which is not followed", str(path))
    doomed = path.with_name(f"{DOOMED}{os.getpid()}-{path.name}")
    os.replace(path, doomed)
    remove_tree(doomed)


def remove_doomed(folder: Path) -> None:
    """What is left of removals that were cut off. What can't be removed is logged, and keeps nothing else from it."""
    for path in folder.glob(f"{DOOMED}*"):
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            else:
                remove_tree(path)
        except FileNotFoundError:
            continue  # another process removed it
        except OSError as error:
            log.warning("what was to go can't be removed path=%s: %s", path, error)
