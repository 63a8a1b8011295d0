"""Files in a folder where a stranger's process may write, too: through no link, and only if they are plain files.

Such a process (what reads a model, serves it, or trains it) can put something else in the place of a file that this one
opens by its name, with its own rights: a link to a file elsewhere, where the kernel has no Landlock or the folder is a
container's; a pipe, which would be waited for; a second name of another file. Here each of these is an OSError whose
text says what stands there, and whose ``filename`` says where.

What is only to be replaced, whatever it is, is written by ``private.write``, which follows nothing either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from inferbench_tasks.folder_tree import MOST_DEEP, Found, remove_tree, shown, walked

_MODES = {
    "rb": os.O_RDONLY,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "wb": os.O_WRONLY | os.O_CREAT,
}
#: A pipe or a device is opened without waiting, and refused.
_PLAINLY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Of a folder nothing is read: in the sandbox not every one on the way may be.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LINK = "a link stands there, which is not followed"
_NO_FILE = "no plain file stands there but a pipe, a device or a folder"
_TWO_NAMES = "the file there has another name elsewhere (a hard link), and is not written"
#: What ranks, servers and children tell in one file is far smaller.
MOST_BYTES = 256 << 20
#: How much of what was removed is named; the rest is counted.
_MOST_TOLD = 100


def opened(path: Path, mode: Literal["rb", "ab", "wb"] = "rb", *, within: Path | None = None) -> IO[bytes]:
    """The plain file, as ``open`` would have it. OSError for anything else.

    ``within``: a folder above, below which no folder on the way may be a link either; by default its own.
    """
    descriptor = _opened(path, _MODES[mode], within or path.parent)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, _NO_FILE, str(path))
        if mode != "rb" and status.st_nlink > 1:
            raise OSError(errno.EMLINK, _TWO_NAMES, str(path))
        os.set_blocking(descriptor, True)  # who is started with it as its output has it plain
        if mode == "wb":
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode)


def read(path: Path, most_bytes: int = MOST_BYTES, *, within: Path | None = None) -> bytes:
    """All of it; OSError as of ``opened``, and where it has more bytes."""
    content = bytearray()
    with opened(path, within=within) as file:
        while block := file.read(1 << 20):  # it may grow meanwhile
            content += block
            if len(content) > most_bytes:
                reason = f"the file has more than the {most_bytes:,} bytes that are read"
                raise OSError(errno.EFBIG, reason, str(path))
    return bytes(content)


def end_of(path: Path, most_bytes: int = 16_384, *, within: Path | None = None) -> str:
    """The last bytes of it as text; OSError as of ``opened``."""
    with opened(path, within=within) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
        return file.read(most_bytes).decode(errors="replace")


def cleared(folder: Path) -> list[str]:
    """Remove whatever lies below it and is neither a folder nor a plain file, or a folder too deep, once nobody writes
    there any more; what that was, in words. OSError where the folder is a link, and where something can't be removed:
    all else is, before.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, _LINK, str(folder))
    told: list[str] = []
    errors: list[OSError] = []
    count = 0
    for found in walked(folder, follow=False, failed=errors.append):
        if not (what := _strange(found)):
            continue
        try:
            if found.too_deep:
                remove_tree(found.name, dir_fd=found.folder)
            else:
                os.unlink(found.name, dir_fd=found.folder)
        except OSError as error:
            errors.append(OSError(error.errno, error.strerror, shown(found.path)))
        count += 1
        if len(told) < _MOST_TOLD:
            told.append(f"{what} at {shown(found.path)}")
    if errors:
        raise errors[0]
    return told if count == len(told) else [*told, f"{count - len(told):,} more"]


def not_plain(folder: Path) -> Iterator[tuple[Path, str]]:
    """Whatever lies below it and is neither a folder nor a plain file, with what it is; of a folder too deep nothing
    below. OSError where it can't be looked at.
    """
    for found in walked(folder):
        if what := _strange(found):
            yield Path(shown(found.path)), what


def _strange(found: Found) -> str:
    """What it is, where that is neither a folder nor a plain file; empty otherwise."""
    if found.too_deep:
        return f"folders nested deeper than {MOST_DEEP}"
    if stat.S_ISLNK(found.mode):
        return "a link"
    return "" if stat.S_ISREG(found.mode) or stat.S_ISDIR(found.mode) else "a pipe, a socket or a device"


def _opened(path: Path, flags: int, within: Path) -> int:
    """Its descriptor, by those of the folders on the way: none of them can be made a link in between."""
    folders = path.parent.relative_to(within).parts
    if not folders:
        return _last(path, str(path), flags, None)
    folder = os.open(within, _FOLDER)
    try:
        for name in folders:
            try:
                below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                text = f"its folder {name} is a link, or no folder"
                raise _named(error, path, {errno.ENOTDIR: text, errno.ELOOP: text}) from None
            os.close(folder)
            folder = below
        return _last(path, path.name, flags, folder)
    finally:
        os.close(folder)


def _last(path: Path, name: str, flags: int, folder: int | None) -> int:
    """The file itself, by its whole path or by its name in a folder."""
    try:
        return os.open(name, flags | _PLAINLY, 0o666, dir_fd=folder)
    except OSError as error:
        texts = {errno.ELOOP: _LINK, errno.ENXIO: _NO_FILE, errno.EISDIR: _NO_FILE}
        raise _named(error, path, texts) from None


def _named(error: OSError, path: Path, texts: dict[int, str]) -> OSError:
    """The error with the whole path, which was opened by its last part alone."""
    number = error.errno or errno.EIO
    return OSError(number, texts.get(number, error.strerror), str(path))
