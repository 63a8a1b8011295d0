"""``folder``: a folder with a folder of images for each class, or one for each split with those."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.classes import NAMES_FILE, numbered
from inferbench_tasks.datasets.pictures import ENDINGS, MAX_FILES, readable
from inferbench_tasks.errors import InputError


class Folder(DataSource):
    """As ImageNet's validation set lies after it is sorted: ``path/class/image``; with splits
    ``path/split/class/image``.

    A class has one number in all splits: that of ``classes.txt`` in the folder (or the split's own), else its place
    among the sorted names of all of them.
    """

    title = "Your images: a folder for each class, or one for each split with those"
    origin = "yours"
    licence = "yours"
    form = "pictures"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        if not path.is_dir():
            raise InputError(f"{path.name} is no folder", field="evaluate.path")
        files = _images_in(path, path)
        if not files:
            splits = self.splits(path)
            split = f"; its splits are {', '.join(splits)}: name one (evaluate.split)" if splits else ""
            raise InputError(
                f"{path.name} has no image in a folder of a class ({path.name}/CLASS/IMAGE){split}; "
                f"allowed: {', '.join(ENDINGS)}",
                field="evaluate.path",
            )
        return _collection(path, path, files, [])

    def splits(self, path: Path | None) -> tuple[str, ...]:
        """Each folder that has a folder with an image."""
        if path is None or not path.is_dir():
            return ()
        return tuple(folder.name for folder in _folders(path) if any(_images(folder)))

    def open_split(self, path: Path | None, split: str) -> Collection:
        assert path is not None
        own = (path / split / NAMES_FILE).is_file()
        others = [] if own else _classes(path, self.splits(path))
        beside = path / split if own else path
        return _collection(path, beside, _images_in(path / split, path), others)

    def count(self, path: Path, split: str | None) -> int:
        return sum(1 for _ in _images(path if split is None else path / split))

    def split_digests(self, path: Path, split: str) -> list[str]:
        """Of the split, and of what numbers its classes: the names of all, and the list beside."""
        names = "\n".join(_classes(path, self.splits(path)))
        beside = path / NAMES_FILE
        listed = [tree_digest(beside)] if beside.is_file() else []
        return [tree_digest(path / split), hashlib.sha256(names.encode()).hexdigest(), *listed]


def _folders(path: Path) -> Iterator[Path]:
    return (each for each in sorted(path.iterdir()) if each.is_dir() and not each.name.startswith("."))


def _images(path: Path) -> Iterator[Path]:
    """The images in the folders of a folder, in no order; no folder whose name begins with a dot."""
    for file in path.glob("*/*"):
        if (
            file.suffix.lower() in ENDINGS and not file.name.startswith(".") and file.parent.name[0] != "."
        ):  # fmt: skip
            yield file


def _images_in(path: Path, base: Path) -> list[Path]:
    """In order; InputError where one leads out of ``base``."""
    files = sorted(_images(path))
    for file in files:
        if not file.resolve().is_relative_to(base.resolve()):
            raise InputError(f"{file} leads out of the folder {base.resolve()}", field="evaluate.path")
    return files


def _classes(path: Path, splits: tuple[str, ...]) -> list[str]:
    """The names of the classes of all splits, sorted."""
    return sorted({file.parent.name for split in splits for file in _images(path / split)})


def _collection(path: Path, beside: Path, files: list[Path], others: list[str]) -> Collection:
    """``beside``: where the names of classes may be listed; ``others``: classes that have a number, too."""
    if len(files) > MAX_FILES:
        raise InputError(
            f"{path.name} has {len(files):,} images, allowed: {MAX_FILES:,}", field="evaluate.path"
        )
    places = [str(file.relative_to(path)) for file in files]
    keep, broken = readable(files, places, path.name)
    good = [files[at] for at in keep]
    # Ids by all folders: a class whose images are all broken keeps its number.
    labels = [*(file.parent.name for file in files), *others]
    found = numbered(labels, [*places, *(f"{path.name}: {name}" for name in others)], beside)
    return Collection(
        path.name, "pictures", len(good), lambda rows: [good[int(at)].read_bytes() for at in rows],
        found.ids[keep], found.names, by_name=found.by_name, left_out=broken,
    )  # fmt: skip
