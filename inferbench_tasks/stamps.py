"""What tells that a file was changed: its change time, which nobody can set, beside what a writer can put back.

A time of modification is set by whoever owns the file (``touch -d``, ``cp -p``, ``rsync -t``, an unpacked archive), so
one that was written since may tell an older one; the change time is the kernel's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Device, inode, size, and both times: equal of a file that nobody touched.
Stamp = tuple[int, int, int, int, int]
NO_FILE: Stamp = (0, 0, 0, 0, 0)
#: As many links as Linux follows on one way.
_MOST_LINKS = 40


def stamp(path: Path) -> Stamp:
    """Of the file that a path leads to, links followed; OSError where there is none."""
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def stamp_or_none(path: Path) -> Stamp:
    """The same, ``NO_FILE`` where there is none: reading it says so."""
    try:
        return stamp(path)
    except OSError:
        return NO_FILE


def changed_ns(path: Path) -> int:
    """When it was last changed, ns of Unix time: the later of both times, of a link, of each link that it leads over
    and of what it leads to.
    """
    states = [path.lstat()]
    if path.is_symlink():
        states += (link.lstat() for link in links_on_the_way(path))
        if path.exists():
            states.append(path.stat())
    return max(max(state.st_mtime_ns, state.st_ctime_ns) for state in states)


def links_on_the_way(path: Path) -> Iterator[Path]:
    """Every link that is followed from the root to what a path leads to, those among its folders too, in their order.

    Each may be made to lead to another, older file. The way ends where there is nothing, and where it goes round.
    """
    at = Path(os.sep)
    left = list(reversed(path.absolute().parts))
    count = 0
    while left:
        name = left.pop()
        # What was walked so far has no links in it any more, so that its parent is the folder above.
        step = at.parent if name == os.pardir else at / name
        if not step.is_symlink():
            at = step
            continue
        if (count := count + 1) > _MOST_LINKS:
            return
        yield step
        left += reversed(
            step.readlink().parts
        )  # from the root (``/`` is its first part), or from where the link lies


def with_all_below(path: Path) -> Iterator[Path]:
    """The path and all in it, links to folders followed, each folder once."""
    yield path
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(path, followlinks=True):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        yield from (Path(folder, name) for name in (*folders, *files))
