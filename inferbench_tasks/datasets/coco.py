"""``coco``: images with boxes in COCO's layout, as they lie at the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.artifacts.cache import file_digest
from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.classes import NAMES_FILE, listed
from inferbench_tasks.datasets.coco_file import FIELD, Box, Instances, Picture, file_in, images_in, instances
from inferbench_tasks.datasets.pictures import MAX_FILES, readable, size_of
from inferbench_tasks.errors import InputError


class Coco(DataSource):
    """Classes are numbered from 0 by the categories' rising ids, or by the lines of ``classes.txt`` in the folder.

    Each image is seen whole, squeezed into the model's shape, and its boxes with it: nothing is cut off, and how far
    two boxes overlap stays what it is.
    """

    title = (
        "Images with boxes in COCO's layout: annotations/instances_SPLIT.json, the images in SPLIT/ beside"
    )
    origin = "yours"
    licence = "yours"
    form = "scenes"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        file = file_in(path)
        known = instances(file)
        pictures = known.pictures
        if len(pictures) > MAX_FILES:
            raise InputError(f"{file.name}: {len(pictures):,} images, allowed: {MAX_FILES:,}", field=FIELD)
        files = images_in(path, file, pictures)
        keep, broken = readable(files, [f"{p.place}: {p.file_name}" for p in pictures], file.name)
        good = [files[at] for at in keep]
        sizes = [_size(pictures[at], files[at]) for at in keep]
        ids, names = _classes(known, path, file.name)
        boxes = [known.boxes[pictures[at].id] for at in keep]
        if not any(not box.crowd for several in boxes for box in several):
            raise InputError(f"{file.name}: no image that can be read has a box to be found", field=FIELD)
        return Collection(
            path.name, "scenes", len(good), lambda rows: [good[int(at)].read_bytes() for at in rows], None, names,
            left_out=broken, targets={"boxes": _table(boxes, ids)}, sizes=np.array(sizes, dtype=np.int64),
            counts={
                "boxes": sum(not box.crowd for several in boxes for box in several),
                "crowds": sum(box.crowd for several in boxes for box in several),
                "without_boxes": sum(not several for several in boxes),
            },
        )  # fmt: skip

    def digests(self, path: Path) -> list[str]:
        """Of the file of instances, of the classes beside it, and of each image that it names, by their ids."""
        file = file_in(path)
        beside = path / NAMES_FILE
        images = images_in(path, file, instances(file).pictures)
        return [file_digest(each) for each in (file, *([beside] if beside.is_file() else []), *images)]


def _size(picture: Picture, file: Path) -> tuple[int, int]:
    """Width and height of an image; InputError where the entry, whose boxes are in its pixels, says others."""
    size = size_of(file)
    if picture.size not in (None, size):
        assert picture.size is not None
        width, height = picture.size
        turned = "; its boxes seem to be of the image turned" if size == (height, width) else ""
        raise InputError(
            f"{picture.place}: {picture.file_name} has {size[0]} x {size[1]} pixels, and not {width} x {height}"
            f"{turned}",
            field=FIELD,
        )
    return size


def _classes(known: Instances, folder: Path, name: str) -> tuple[dict[int, int], tuple[str, ...]]:
    """Category's id -> class, and the classes' names."""
    order = listed(folder / NAMES_FILE)
    if not order:
        return {category: at for at, category in enumerate(known.categories)}, tuple(
            known.categories.values()
        )
    for category, called in known.categories.items():
        if called not in order:
            raise InputError(
                f"{name}: the category {category} {called!r} is no class of {NAMES_FILE}", field=FIELD
            )
    places = {called: at for at, called in enumerate(order)}
    return {category: places[called] for category, called in known.categories.items()}, tuple(order)


def _table(boxes: Sequence[Sequence[Box]], ids: Mapping[int, int]) -> NDArray[np.float64]:
    """As ``contracts.targets`` has boxes, in each image's own pixels."""
    table = np.zeros((len(boxes), max(map(len, boxes)), 8))
    table[:, :, 0], table[:, :, 7] = -1, 1
    for row, several in zip(table, boxes, strict=True):
        for at, box in enumerate(several):
            row[at, :7] = (ids[box.category], *box.corners, box.crowd, box.area)
    return table
