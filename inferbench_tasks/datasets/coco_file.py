"""COCO's file of instances: its images, categories and boxes, each checked; and where the images lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferbench_tasks.datasets.json_file import entries, number, read, text, whole
from inferbench_tasks.errors import InputError

FIELD = "evaluate.path"
PREFIX = "instances_"
#: Where the file is looked for below the folder that is named, the first that has one.
FILES = (f"annotations/{PREFIX}*.json", "annotations/*.json", "*.json")
#: So many pixels a box may reach out of its image: annotators round. More of them than this share are of another form.
_OUTSIDE, _MOST_OUTSIDE_RATIO = 2.0, 0.01
#: So many are named in what is said.
_NAMED = 8


@dataclass(frozen=True)
class Picture:
    """One entry of ``images``; ``size`` is width and height, None where the file does not say it."""

    place: str
    id: int
    file_name: str
    size: tuple[int, int] | None


@dataclass(frozen=True)
class Box:
    """``corners``: x1, y1, x2, y2 in the image's pixels. ``area``: of the object, of the box where that is not said."""

    category: int
    corners: tuple[float, float, float, float]
    crowd: bool
    area: float


@dataclass(frozen=True)
class Instances:
    """``pictures``, ``categories`` (id -> name) by rising id; ``boxes`` by the image's id, () for one without."""

    pictures: Sequence[Picture]
    categories: Mapping[int, str]
    boxes: Mapping[int, Sequence[Box]]


def file_in(folder: Path) -> Path:
    """The file of instances; InputError, which names them, where there is none or where it is not clear which."""
    if not folder.is_dir():
        raise InputError(
            f"{folder.name} is no folder; give the one that has annotations/{PREFIX}SPLIT.json and the images",
            field=FIELD,
        )
    for pattern in FILES:
        files = sorted(file for file in folder.glob(pattern) if file.is_file())
        if not files:
            continue
        # The whole of COCO's annotations lie together; the images of one split beside them say which is meant.
        present = [file for file in files if any((folder / place).is_dir() for place in _of_split(file))]
        held_out = [file for file in present if split_of(file).startswith("val")]
        for chosen in (files, present, held_out):
            if len(chosen) == 1:
                return chosen[0]
        names = ", ".join(str(file.relative_to(folder)) for file in files[:_NAMED])
        raise InputError(
            f"{folder.name} has {len(files)} files of annotations, and which is meant can't be told: {names}; allowed: "
            f"one, or one whose images are there (SPLIT/ beside annotations/), or one of these that begins with val",
            field=FIELD,
        )
    raise InputError(f"{folder.name} has no file of annotations in any of: {', '.join(FILES)}", field=FIELD)


def split_of(file: Path) -> str:
    """``val2017`` of ``instances_val2017.json``."""
    return file.stem.removeprefix(PREFIX)


def _of_split(file: Path) -> tuple[str, ...]:
    return split_of(file), f"images/{split_of(file)}"


def images_in(folder: Path, file: Path, pictures: Sequence[Picture]) -> list[Path]:
    """Where each picture lies: all in the first of the usual folders that has one of them. InputError, with the
    entries, where some are not there, or lead out of the folder."""
    places = (*_of_split(file), "images", "data", ".")
    base = folder.resolve()
    for picture in pictures:
        if not (base / picture.file_name).resolve().is_relative_to(base):
            raise InputError(
                f"{picture.place}: file_name {picture.file_name[:80]!r} leads out of the folder {folder.name}",
                field=FIELD,
            )
    first = pictures[0]
    have = (p for p in places if any((base / p / each.file_name).is_file() for each in pictures))
    if (place := next(have, None)) is None:
        raise InputError(
            f"{first.place}: {first.file_name} is in none of the folders of {folder.name} where images are looked for: "
            f"{', '.join(places)}",
            field=FIELD,
        )
    files = [base / place / picture.file_name for picture in pictures]
    missing = [p for p, image in zip(pictures, files, strict=True) if not image.is_file()]
    if missing:
        named = "; ".join(f"{p.place}: {p.file_name}" for p in missing[:_NAMED])
        raise InputError(
            f"{len(missing)} of {len(files)} images are not in {folder.name}/{place}: {named}; put them there, or take "
            f"their entries out",
            field=FIELD,
        )
    for picture, image in zip(pictures, files, strict=True):
        if not image.resolve().is_relative_to(base):
            raise InputError(f"{picture.place}: {image} leads out of the folder {base}", field=FIELD)
    return files


def instances(file: Path) -> Instances:
    """What the file says; InputError with the entry, and what is allowed there."""
    document = read(file, FIELD)
    pictures = _pictures(file.name, document)
    categories = _categories(file.name, document)
    sizes = {picture.id: picture.size for picture in pictures}
    boxes: dict[int, list[Box]] = {picture.id: [] for picture in pictures}
    outside: list[str] = []
    total = 0
    for place, entry in entries(document, "annotations", file.name, FIELD):
        image = whole(entry, "image_id", place, FIELD)
        if image not in boxes:
            raise InputError(
                f"{place}: image_id {image} is none of the {len(pictures)} ids under images", field=FIELD
            )
        box = _box(entry, place, categories)
        total += 1
        boxes[image].append(box)
        size = sizes[image]
        if size is not None and _leaves(box, size):
            outside.append(f"{place}: bbox {entry['bbox']} leaves its image of {size[0]} x {size[1]}")
    if not any(not box.crowd for several in boxes.values() for box in several):
        raise InputError(
            f"{file.name}: annotations ({total}) has no box to be found; needed is one at least that is of no crowd",
            field=FIELD,
        )
    if len(outside) > _MOST_OUTSIDE_RATIO * total:
        raise InputError(
            f"{outside[0]}; {len(outside)} of {total} do. Needed are x, y of the upper left corner, width, height, in "
            f"pixels of the image",
            field=FIELD,
        )
    return Instances(pictures, categories, boxes)


def _pictures(name: str, document: Mapping[str, Any]) -> list[Picture]:
    pictures: dict[int, Picture] = {}
    files: dict[str, str] = {}
    for place, entry in entries(document, "images", name, FIELD):
        own = whole(entry, "id", place, FIELD)
        file_name = text(entry, "file_name", place, FIELD)
        if own in pictures:
            raise InputError(f"{place}: the id {own} is that of {pictures[own].place}, too", field=FIELD)
        if file_name in files:
            raise InputError(f"{place}: {file_name} is the file of {files[file_name]}, too", field=FIELD)
        size = None
        if entry.get("width") is not None or entry.get("height") is not None:
            size = (whole(entry, "width", place, FIELD), whole(entry, "height", place, FIELD))
            if min(size) < 1:
                raise InputError(f"{place}: {size[0]} x {size[1]} is no size of an image", field=FIELD)
        pictures[own] = Picture(place, own, file_name, size)
        files[file_name] = place
    if not pictures:
        raise InputError(f"{name}: images is empty; needed is one image at least", field=FIELD)
    # COCO's own evaluation goes by rising id, which decides between boxes of equal score.
    return [pictures[at] for at in sorted(pictures)]


def _categories(name: str, document: Mapping[str, Any]) -> dict[int, str]:
    categories: dict[int, str] = {}
    for place, entry in entries(document, "categories", name, FIELD):
        own, called = whole(entry, "id", place, FIELD), text(entry, "name", place, FIELD)
        if own in categories or called in categories.values():
            raise InputError(
                f"{place}: id {own} and name {called!r} must each be no other category's", field=FIELD
            )
        categories[own] = called
    if not categories:
        raise InputError(f"{name}: categories is empty; needed is one at least", field=FIELD)
    return {at: categories[at] for at in sorted(categories)}


def _box(entry: Mapping[str, Any], place: str, categories: Mapping[int, str]) -> Box:
    category = whole(entry, "category_id", place, FIELD)
    if category not in categories:
        known = ", ".join(f"{at} {called}" for at, called in list(categories.items())[:_NAMED])
        more = ", ..." if len(categories) > _NAMED else ""
        raise InputError(f"{place}: category_id {category} is no category; known: {known}{more}", field=FIELD)
    bbox = entry.get("bbox")
    sides = [number(value) for value in bbox] if isinstance(bbox, list) else []
    if len(sides) != 4 or None in sides or sides[2] < 0 or sides[3] < 0:  # type: ignore[operator]
        raise InputError(
            f"{place}: bbox must be four numbers, x, y, width, height (0 or more); got {bbox!r}"[:300],
            field=FIELD,
        )
    x, y, width, height = (float(side) for side in sides)  # type: ignore[arg-type]
    crowd = entry.get("iscrowd", 0)
    if isinstance(crowd, bool) or crowd not in (0, 1):
        raise InputError(f"{place}: iscrowd must be 0 or 1; got {crowd!r}"[:300], field=FIELD)
    area = number(entry["area"]) if "area" in entry else width * height
    if area is None or area < 0:
        raise InputError(
            f"{place}: area must be a number from 0 on; got {entry['area']!r}"[:300], field=FIELD
        )
    return Box(category, (x, y, x + width, y + height), crowd == 1, area)


def _leaves(box: Box, size: tuple[int, int]) -> bool:
    x1, y1, x2, y2 = box.corners
    return min(x1, y1) < -_OUTSIDE or x2 > size[0] + _OUTSIDE or y2 > size[1] + _OUTSIDE
