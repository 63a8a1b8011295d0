"""``folder``: a folder with a folder of images for each class."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.datasets.base import Collection, DataSource
from inferbench_tasks.datasets.classes import numbered
from inferbench_tasks.datasets.pictures import ENDINGS, MAX_FILES, readable
from inferbench_tasks.errors import InputError


class Folder(DataSource):
    """As ImageNet's validation set lies after it is sorted: ``path/class/image``."""

    title = "Your images: a folder for each class"
    origin = "yours"
    licence = "yours"
    form = "pictures"
    takes_path = True

    def open(self, path: Path | None) -> Collection:
        assert path is not None
        if not path.is_dir():
            raise InputError(f"{path.name} is no folder", field="evaluate.path")
        base = path.resolve()
        files = []
        for file in sorted(path.glob("*/*")):
            if (
                file.suffix.lower() in ENDINGS
                and not file.name.startswith(".")
                and file.parent.name[0] != "."
            ):
                if not file.resolve().is_relative_to(base):
                    raise InputError(f"{file} leads out of the folder {base}", field="evaluate.path")
                files.append(file)
        if not files:
            raise InputError(
                f"{path.name} has no image in a folder of a class ({path.name}/CLASS/IMAGE); "
                f"allowed: {', '.join(ENDINGS)}",
                field="evaluate.path",
            )
        if len(files) > MAX_FILES:
            raise InputError(
                f"{path.name} has {len(files):,} images, allowed: {MAX_FILES:,}", field="evaluate.path"
            )
        places = [str(file.relative_to(path)) for file in files]
        keep, broken = readable(files, places, path.name)
        good = [files[at] for at in keep]
        # Ids by all folders: a class whose images are all broken keeps its number.
        found = numbered([file.parent.name for file in files], places, path)
        return Collection(
            path.name, "pictures", len(good), lambda rows: [good[int(at)].read_bytes() for at in rows],
            found.ids[keep], found.names, by_name=found.by_name, left_out=broken,
        )  # fmt: skip
