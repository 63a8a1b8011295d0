"""Trees of folders that a stranger made: looked at and removed however deep they are, and through no link.

Every name is taken in its folder's descriptor: no path grows too long, and no folder on the way can be made a link in
between. Nothing here calls itself, so a thousand nested folders are no more than a thousand entries.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Nobody's model or log lies deeper; each level of a walk holds a descriptor.
MOST_DEEP = 200
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _READ | os.O_NOFOLLOW
#: How much of a path is told.
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Found:
    """``folder``: the descriptor of where ``name`` lies, open until the next one; ``too_deep``: a folder that is not
    looked into."""

    folder: int
    name: str
    path: Path
    mode: int
    too_deep: bool


@dataclass(slots=True)
class _Level:
    descriptor: int
    path: Path
    names: list[str]


def raised(error: OSError) -> None:
    """What ``walked`` does with an error unless it is told otherwise."""
    raise error


def walked(
    folder: Path, *, follow: bool = True, failed: Callable[[OSError], None] = raised
) -> Iterator[Found]:
    """Whatever lies below it, a folder before what is in it. ``follow``: whether it may be reached by a link itself.

    OSError where it can't be opened; what can't be looked at below goes to ``failed``.
    """
    levels = [_level(os.open(folder, _READ if follow else _BELOW), folder)]
    try:
        while levels:
            level = levels[-1]
            if not level.names:
                os.close(levels.pop().descriptor)
                continue
            name = level.names.pop()
            path = level.path / name
            try:
                mode = os.lstat(name, dir_fd=level.descriptor).st_mode
                is_folder, too_deep = stat.S_ISDIR(mode), len(levels) > MOST_DEEP
                yield Found(level.descriptor, name, path, mode, is_folder and too_deep)
                if is_folder and not too_deep:
                    levels.append(_level(os.open(name, _BELOW, dir_fd=level.descriptor), path))
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError as error:
                failed(OSError(error.errno, error.strerror, shown(path)))
    finally:
        for level in levels:
            os.close(level.descriptor)


def remove_tree(path: str | Path, *, dir_fd: int | None = None) -> None:
    """Remove a folder with all below. OSError where it is a link; where something stays the first one, at the end.

    Folders are moved up beside each other and emptied there: two descriptors are enough for any depth.
    """
    top = os.open(path, _BELOW, dir_fd=dir_fd)
    errors: list[OSError] = []
    try:
        pending = os.listdir(top)
        while pending:
            name = pending.pop()
            try:
                if stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                    pending += _emptied(name, top, errors)
                    os.rmdir(name, dir_fd=top)
                else:
                    os.unlink(name, dir_fd=top)
            except OSError as error:
                errors.append(error)
    finally:
        os.close(top)
    if errors:
        raise OSError(errors[0].errno, errors[0].strerror, shown(Path(path)))
    os.rmdir(path, dir_fd=dir_fd)


def shown(path: Path) -> str:
    """A path as it may be told: not without end, and of characters that every document takes."""
    text = str(path).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _level(descriptor: int, path: Path) -> _Level:
    try:
        return _Level(descriptor, path, os.listdir(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def _emptied(name: str, top: int, errors: list[OSError]) -> list[str]:
    """Empty a folder of ``top``; the names in ``top`` that its folders have now."""
    moved = []
    folder = os.open(name, _BELOW, dir_fd=top)
    try:
        for below in os.listdir(folder):
            try:
                if stat.S_ISDIR(os.lstat(below, dir_fd=folder).st_mode):
                    new = f"{secrets.token_hex(16)}.doomed"
                    os.rename(below, new, src_dir_fd=folder, dst_dir_fd=top)
                    moved.append(new)
                else:
                    os.unlink(below, dir_fd=folder)
            except OSError as error:
                errors.append(error)
    finally:
        os.close(folder)
    return moved
