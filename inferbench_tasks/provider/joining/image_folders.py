"""Folders of images that trainings read: other hosts get those as artifacts, when they need them, and not beforehand.

A worker reads a submission as the leader does, and looks whether its folder has classes: of two an image comes along.
What can't be read names nothing; the log says which file that is, and why, each reason once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.joining.files import hidden
from inferbench_tasks.stamps import Stamp, stamp
from inferbench_tasks.submission.document import read_document
from inferbench_tasks.training.folder import FORMATS

log = logging.getLogger(__name__)

#: So many classes make a folder one that can be trained on (``training.folder``).
_CLASSES = 2


def sent_of(submissions: Path) -> dict[Path, list[Path]]:
    """Folder of images -> what of it is sent with the submissions; links resolved.

    Of folders that trainings name as ``data: {kind: folder}``, unless another submission names something in them, or
    around them: that one may read it on its device's host. What can't be read is no submission, and is logged.
    """
    folders: set[Path] = set()
    named: set[Path] = set()
    for root, _, names in os.walk(submissions, onerror=_unlisted):
        for file in (Path(root, name) for name in names if name.endswith((".yaml", ".yml"))):
            own, others = _named(file)
            folders |= own
            named |= {file.resolve(), *others}
    top = submissions.resolve()
    return {
        folder: _of_two(folder) for folder in folders
        if folder != top and folder.is_relative_to(top) and folder.is_dir()
        and not any(
            path.is_relative_to(folder) or folder.is_relative_to(path) for path in named | (folders - {folder})
        )
    }  # fmt: skip


def _of_two(folder: Path) -> list[Path]:
    """An image of each of two classes, as many as a worker looks for: nothing hidden, and no link, which a training
    leaves out, too.
    """
    found: list[Path] = []
    classes = (path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    for each in sorted(path for path in classes if not hidden(path.name)):
        images = (
            path for path in each.rglob("*")
            if path.suffix.lower() in FORMATS and path.is_file() and not path.is_symlink()
            and not any(hidden(part) for part in path.relative_to(each).parts)
        )  # fmt: skip
        if len(found) < _CLASSES and (first := next(images, None)) is not None:
            found.append(first)
    return found


def _named(file: Path) -> tuple[set[Path], set[Path]]:
    """(folders of images that a training names, whatever else a submission names below its folder)."""
    try:
        data = _read(file, stamp(file))
    except OSError as error:
        _say(file, error.strerror or str(error))
        return set(), set()
    of_images = data.get("data") if data.get("kind") == "training" else None
    own: set[str] = set()
    if isinstance(of_images, dict) and of_images.get("kind") == "folder":
        own = set(_texts(of_images.get("path")))
    base = file.parent.resolve()
    said = {name: value for name, value in data.items() if name not in ("name", "user")}
    others = {text for text in _texts(said) if text not in own and _may_be_path(text)}
    # What it is called lies beside it, or nowhere.
    there = {(base / text).resolve() for text in others} - {base}
    return {(base / text).resolve() for text in own}, {path for path in there if path.exists()}


@lru_cache(maxsize=1024)
def _read(file: Path, _: Stamp) -> dict[str, Any]:
    try:
        return read_document(file.read_text(encoding="utf-8-sig"), str(file)).data
    except (InputError, UnicodeDecodeError) as error:
        _say(file, str(error))
        return {}


def _unlisted(error: OSError) -> None:
    _say(Path(str(error.filename)), error.strerror or str(error))


@lru_cache(maxsize=1024)
def _say(file: Path, reason: str) -> None:
    """Once: the folder is looked at again and again. Its images, and those of others that it names, may go missing on
    other hosts.
    """
    log.warning("a submission can't be read, what it names is not looked at file=%s: %s", file, reason)


def _texts(value: Any) -> Iterator[str]:
    """All texts in it, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for part in parts:
            yield from _texts(part)


def _may_be_path(text: str) -> bool:
    return 0 < len(text) <= 1_000 and "\n" not in text and "\0" not in text
