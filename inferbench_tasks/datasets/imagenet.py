"""``imagenet-val``: ImageNet's validation set (ILSVRC 2012) as it lies at the user's, in one of its layouts."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.pictures import ENDINGS, MAX_FILES, readable
from inferbench_tasks.errors import InputError

_FIELD = "evaluate.path"
#: Where the images are looked for below the folder that is named, the first that has some.
IMAGES = ("val", "ILSVRC/Data/CLS-LOC/val", "Data/CLS-LOC/val", "CLS-LOC/val", ".")
#: Kaggle's files: synset and names on a line each in the order of the classes; image -> synset and boxes.
MAPPING, SOLUTION = "LOC_synset_mapping.txt", "LOC_val_solution.csv"
#: Caffe's: an image and its class on each line, the class counted from 0 in the order of the synsets.
LISTED = "val.txt"
#: The development kit's: only numbers, in an order of its own.
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
CLASSES = 1000
_SYNSET = re.compile(r"n\d{8}")
_NUMBER = re.compile(r"[0-9]{1,9}")


class ImageNetVal(DataSource):
    """Classes are numbered by the sorted synsets, 0 to 999, as models of ImageNet have them.

    Labels are those of a folder for each synset (``val/n01440764/x.JPEG``), of Kaggle's ``LOC_val_solution.csv`` with
    ``LOC_synset_mapping.txt``, or of Caffe's ``val.txt``. The development kit's ground truth has numbers of another
    order: by itself it is refused.
    """

    title = "ImageNet's validation set as you have it: val/SYNSET/IMAGE, Kaggle's or Caffe's files of labels"
    origin = "yours: image-net.org"
    licence = "for research that is not commercial, see image-net.org"
    form = "pictures"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        synsets = _synsets(path)
        images, ids = [], []
        for image, number in _labelled(path, synsets):
            images.append(image)
            ids.append(number)
        if len(images) > MAX_FILES:
            raise InputError(f"{path.name} has {len(images):,} images, allowed: {MAX_FILES:,}", field=_FIELD)
        keep, broken = readable(images, [image.name for image in images], path.name)
        good = [images[at] for at in keep]
        # Of numbers alone the classes are known, too: all thousand, so that a model of 1,001 (TensorFlow's, whose first
        # one is the background) is refused, and not judged by the class beside each.
        classes = synsets or tuple(map(str, range(CLASSES)))
        return Collection(
            path.name, "pictures", len(good), lambda rows: [good[int(at)].read_bytes() for at in rows],
            np.array(ids, dtype=np.int64)[keep], classes, left_out=broken,
        )  # fmt: skip

    def count(self, path: Path, split: str | None) -> int:
        return sum(1 for _ in _labelled(path, _synsets(path)))

    def digests(self, path: Path) -> list[str]:
        """Of the images and of the files of labels: the training set beside them is none of it."""
        files = [path / name for name in (MAPPING, SOLUTION, LISTED) if (path / name).is_file()]
        return [tree_digest(_images_of(path)), *(tree_digest(file) for file in files)]


def _images_of(path: Path) -> Path:
    """The folder with the images, or with a folder of images for each synset."""
    if not path.is_dir():
        raise InputError(f"{path.name} is no folder", field=_FIELD)
    for name in IMAGES:
        folder = path / name
        if folder.is_dir() and any(_is_image(file) or _is_synset(file) for file in folder.iterdir()):
            if not folder.resolve().is_relative_to(path.resolve()):
                raise InputError(f"{folder} leads out of the folder {path}", field=_FIELD)
            return folder
    raise InputError(f"{path.name} has no images in any of: {', '.join(IMAGES)}", field=_FIELD)


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS and not file.name.startswith(".")


def _is_synset(folder: Path) -> bool:
    return bool(_SYNSET.fullmatch(folder.name)) and folder.is_dir()


def _synsets(path: Path) -> tuple[str, ...]:
    """The classes in their order: of the mapping, else the folders of all thousand; () where only numbers are given."""
    mapping = path / MAPPING
    if mapping.is_file():
        found: list[str] = []
        for line, text in enumerate(_lines(mapping), 1):
            if not _SYNSET.fullmatch(name := text.split(" ", 1)[0]):
                raise InputError(f"{MAPPING}:{line}: {name[:40]!r} is no synset (n01440764)", field=_FIELD)
            if found and name <= found[-1]:
                raise InputError(
                    f"{MAPPING}:{line}: {name} stands behind {found[-1]}; synsets are sorted", field=_FIELD
                )
            found.append(name)
        return tuple(found)
    folders = sorted(folder.name for folder in _images_of(path).iterdir() if _is_synset(folder))
    if folders and len(folders) != CLASSES:
        raise InputError(
            f"{path.name} has {len(folders)} folders of synsets, and only of all {CLASSES} their order tells the "
            f"class; put {MAPPING} beside them",
            field=_FIELD,
        )
    return tuple(folders)


def _labelled(path: Path, synsets: tuple[str, ...]) -> Iterator[tuple[Path, int]]:
    """Each image with its class, in the order of their names."""
    images = _images_of(path)
    if any(_is_synset(folder) for folder in images.iterdir()):
        yield from _by_folder(images, synsets)
        return
    if (path / SOLUTION).is_file():
        if not synsets:
            raise InputError(f"{SOLUTION} names synsets; {MAPPING} is missing beside it", field=_FIELD)
        labels = _kaggle(path / SOLUTION, synsets)
    elif (path / LISTED).is_file():
        labels = _caffe(path / LISTED)
    elif (path / GROUND_TRUTH).is_file():
        raise InputError(
            f"the numbers of {GROUND_TRUTH} are in the development kit's order, which is not that of the models' "
            f"classes; put Caffe's {LISTED}, or Kaggle's {SOLUTION} and {MAPPING}, into {path.name}",
            field=_FIELD,
        )
    else:
        raise InputError(
            f"{path.name} has images and no labels: put them into a folder for each synset, or {LISTED}, or "
            f"{SOLUTION} and {MAPPING} beside them",
            field=_FIELD,
        )
    files = sorted(file for file in images.iterdir() if _is_image(file))
    present = {file.stem for file in files}
    if missing := sorted(labels.keys() - present):
        raise InputError(
            f"{len(missing)} images that have labels are not there: {missing[0]}, ...", field=_FIELD
        )
    for file in files:
        if file.stem not in labels:
            raise InputError(f"{file.name} has no label", field=_FIELD)
        yield file, labels[file.stem]


def _by_folder(images: Path, synsets: tuple[str, ...]) -> Iterator[tuple[Path, int]]:
    ids = {name: at for at, name in enumerate(synsets)}
    for folder in sorted(folder for folder in images.iterdir() if _is_synset(folder)):
        if folder.name not in ids:
            raise InputError(f"{folder.name} is no synset of {MAPPING}", field=_FIELD)
        for file in sorted(file for file in folder.iterdir() if _is_image(file)):
            if not file.resolve().is_relative_to(images.resolve()):
                raise InputError(f"{file} leads out of the folder {images}", field=_FIELD)
            yield file, ids[folder.name]


def _kaggle(path: Path, synsets: tuple[str, ...]) -> dict[str, int]:
    """Image -> class; the synset is the first word of a prediction string, all boxes of an image have the same."""
    ids = {name: at for at, name in enumerate(synsets)}
    labels: dict[str, int] = {}
    for line, row in enumerate(csv.reader(_lines(path)), 1):
        if line == 1 and row[:1] == ["ImageId"]:
            continue
        name = row[1].split(" ", 1)[0] if len(row) == 2 else ""
        if name not in ids:
            raise InputError(
                f"{path.name}:{line}: needed is an image and a synset of {MAPPING}", field=_FIELD
            )
        _put(labels, row[0], ids[name], f"{path.name}:{line}")
    return labels


def _caffe(path: Path) -> dict[str, int]:
    labels: dict[str, int] = {}
    for line, text in enumerate(_lines(path), 1):
        name, _, number = text.strip().rpartition(" ")
        if not name or not _NUMBER.fullmatch(number) or int(number) >= CLASSES:
            raise InputError(
                f"{path.name}:{line}: needed is an image and its class, 0 to {CLASSES - 1}", field=_FIELD
            )
        _put(labels, Path(name).stem, int(number), f"{path.name}:{line}")
    return labels


def _put(labels: dict[str, int], image: str, number: int, place: str) -> None:
    if labels.setdefault(image, number) != number:
        raise InputError(f"{place}: {image} has another class above", field=_FIELD)


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} can't be read: {error}", field=_FIELD) from error
