"""The embedded server's folder: whose it is, whether it can be used, and the lock on starting there."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from inferbench_tasks import private
from inferbench_tasks.errors import PerfDBError, StorageError

MIN_FREE_BYTES = 200 * 1024 * 1024
#: Waiting for another process that starts or stops the server.
LOCK_TIMEOUT_S = 150.0


def place(data_dir: Path) -> Path:
    """The folder of that data directory's server, links resolved, whether it exists or not."""
    return (data_dir.absolute() / "perfdb").resolve()


def usable(data_dir: Path) -> Path:
    """The folder, made if it is missing; raises StorageError where it can't be used or is not ours."""
    folder = place(data_dir)
    try:
        if folder.exists():
            require_ours(folder)
        private.folder(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(folder))
    except OSError as error:
        raise StorageError(
            f"The PerfDB's folder {folder} can't be used: {error.strerror}. Fix it, or set "
            "INFERBENCH_DATA_DIR (or --data-dir) to a folder of yours."
        ) from error
    return folder


def require_ours(folder: Path) -> None:
    """Raises StorageError if another user made the folder: even root would break it for them."""
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise StorageError(
            f"The PerfDB in {folder} belongs to {_name(owner)}, and you are {_name(os.geteuid())}: its files "
            "and its server are theirs. Set INFERBENCH_DATA_DIR (or --data-dir) to a folder of yours, or "
            "share one MongoDB by INFERBENCH_PERFDB_URI."
        )


def require_space(folder: Path) -> None:
    """Raises StorageError where a new server would soon run out of space."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise no_space(folder)


def no_space(folder: Path) -> StorageError:
    """The error for a full disk."""
    free = shutil.disk_usage(folder).free
    return StorageError(
        f"No space for the embedded PerfDB: {free / 1e6:.0f} MB are free at {folder}, "
        f"{MIN_FREE_BYTES / 1e6:.0f} MB are needed. Free some, or set INFERBENCH_DATA_DIR elsewhere."
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock under which the server is started and stopped."""
    lock = FileLock(folder / "lock", timeout=LOCK_TIMEOUT_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise PerfDBError(
            f"Another process has held {folder / 'lock'} for {LOCK_TIMEOUT_S:.0f} s: it starts or stops "
            "the embedded PerfDB and does not get there. End that process and try again."
        ) from error
    except OSError as error:
        raise StorageError(f"{folder / 'lock'} can't be locked: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
