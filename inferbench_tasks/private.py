"""What only its owner can read: files with secrets, and the data directory, also where it was there before.

A folder of mode 700 keeps other users from everything below it, whatever the modes there are; the umask makes new
files private by themselves.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: Of every process that InferBench starts: what they write is their owner's alone.
UMASK = 0o077
#: What InferBench puts into a data directory.
NAMES = frozenset(
    {
        *(
            "airflow",
            "artifacts",
            "cache",
            "home.id",
            ".cleaned.lock",
            "cleaned",
            "images.txt",
            "invocations",
            "joined",
            "loads",
            "machine.lease",
            "machine.lock",
            "perfdb",
            "regression",
        ),
        *("runs", "scheduling", "servers", "submitted", "system", "workers"),
    }
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def write(path: Path, text: str) -> None:
    """Replace a file at once by one that only its owner can read, mode 600."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def folder(path: Path) -> Path:
    """The folder, made with mode 700 if it is missing; closed to others if it is ours and was open to them."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    close(path)
    return path


def close(path: Path) -> None:
    """Take from others what they may do with our own file or folder; another user's, and links, stay as they are."""
    mode = path.lstat()
    if mode.st_uid == os.geteuid() and mode.st_mode & _OTHERS and not stat.S_ISLNK(mode.st_mode):
        path.chmod(stat.S_IMODE(mode.st_mode) & ~_OTHERS)


def close_data(data_dir: Path) -> None:
    """Close what InferBench keeps in a data directory, and the directory itself where it holds nothing else.

    A directory that holds other things too (a home, ``/tmp``) has its mode for them.
    """
    entries = list(data_dir.iterdir())
    for entry in entries:
        if entry.name in NAMES:
            close(entry)
    if all(entry.name in NAMES for entry in entries):
        close(data_dir)


def open_to_others(data_dir: Path) -> list[Path]:
    """Our files and folders of a data directory that another user can get at: none if the directory is closed."""
    return [path for path in _reachable(data_dir) if path.stat().st_mode & _OTHERS]


def _reachable(data_dir: Path) -> list[Path]:
    """The directory and what is directly in it, as far as others can enter."""
    if not data_dir.is_dir() or not data_dir.stat().st_mode & _OTHERS:
        return []
    entries = [entry for entry in data_dir.iterdir() if entry.name in NAMES]
    alone = all(entry.name in NAMES for entry in data_dir.iterdir())
    return [*([data_dir] if alone else []), *entries]
