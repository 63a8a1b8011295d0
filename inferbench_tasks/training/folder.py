"""A folder of the user's images: each folder in it is a class. What is no image, or a hostile one, is left out by name.

Files are looked at where nothing else can be reached (the stage's sandboxed child), and read in place afterwards: the
storage that they lie on is part of what is measured.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from inferbench_tasks.contracts.located_files import LocatedFiles
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.image import MAX_PIXELS

#: Ending -> what Pillow may take such files for; formats with more than pixels in them are none of these.
FORMATS: Final = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP", ".bmp": "BMP"}
DECODERS: Final = tuple(sorted(set(FORMATS.values())))
MOST_ENTRIES: Final = 2_000_000
MOST_FILE_BYTES: Final = 64 << 20
#: More broken images than this share of those looked at, and more than a few, are no accident.
MOST_BROKEN_RATIO: Final = 0.1
FEW_BROKEN: Final = 10
_NAMED: Final = 10
_NAME_LENGTH: Final = 200


@dataclass
class Chosen:
    """``paths``: below the folder, by class and name, with their ``labels``. ``broken``: how many were looked at and
    left out, ``named``: the first of them with why. ``others``: files with other endings, which nobody looked at.
    """

    classes: list[str]
    paths: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    broken: int = 0
    named: list[str] = field(default_factory=list)
    others: int = 0

    def left_out(self) -> dict[str, Any]:
        """For the result."""
        return {
            "broken": self.broken,
            "named": self.named,
            "others": self.others,
            "classes": len(self.classes),
        }


def choose(folder: Path, count: int, seed: int, watch: Watch) -> Chosen:
    """``count`` whole images of the folder, by chance (seeded), of every class that chance hits.

    Raises InputError for a folder with one class or none, with too few images, or with too many broken ones.
    """
    candidates, others = _candidates(folder)
    classes = sorted({path.split("/", 1)[0] for path in candidates})
    if len(classes) < 2:
        raise InputError(_too_few(folder, classes), field="data.path")
    chosen = Chosen(classes, others=others)
    good: list[str] = []
    for looked, at in enumerate(np.random.default_rng(seed).permutation(len(candidates)), 1):
        if len(good) == count:
            break
        watch.step(len(good), count, f"looking at the images of {folder.name}")
        path = candidates[at]
        if reason := problem(folder / path):
            chosen.broken += 1
            if len(chosen.named) < _NAMED:
                chosen.named.append(f"{_shown(path)}: {reason}")
            if chosen.broken > max(FEW_BROKEN, MOST_BROKEN_RATIO * looked):
                message = (
                    f"{chosen.broken:,} of the first {looked:,} images can't be used, and at most "
                    f"{MOST_BROKEN_RATIO:.0%} of them are left out: {'; '.join(chosen.named)}"
                )
                raise InputError(message, field="data.path")
        else:
            good.append(path)
    if len(good) < count:
        without = f"; left out: {'; '.join(chosen.named)}" if chosen.named else ""
        message = (
            f"{folder.name} has {len(good):,} images that can be used; {count:,} were asked for{without}"
        )
        raise InputError(message, field="data.samples")
    number = {name: at for at, name in enumerate(classes)}
    chosen.paths = sorted(good, key=lambda path: (number[path.split("/", 1)[0]], path))
    chosen.labels = [number[path.split("/", 1)[0]] for path in chosen.paths]
    if len(set(chosen.labels)) < 2:
        raise InputError(f"all {count:,} images are of one class; take more samples", field="data.samples")
    return chosen


def too_few_classes(folder: Path) -> str | None:
    """Why nothing can be told apart there, by the names of its folders alone, none of whose files is opened; None where
    there are two. What cannot be listed is left to who opens it.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return None
    return _too_few(folder, names) if len(names) < 2 else None


def _too_few(folder: Path, classes: list[str]) -> str:
    what = f"one class ({_shown(classes[0])})" if classes else "no class"
    return (
        f"{folder.name} has {what}: a classifier learns to tell two at least apart. Each folder in it is a class, "
        f"with its images ({', '.join(FORMATS)}) below it"
    )


def problem(path: Path) -> str | None:
    """Why that file is no image that can be used; None if it is one."""
    from PIL import Image, UnidentifiedImageError

    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "is no plain file"
        if status.st_size > MOST_FILE_BYTES:
            return f"has {status.st_size:,} bytes, allowed are {MOST_FILE_BYTES:,}"
        with open(path, "rb") as file, Image.open(file, formats=DECODERS) as image:
            if reason := too_large(image):
                return reason
            image.convert("RGB")
    except UnidentifiedImageError:
        return f"is no image ({', '.join(DECODERS)})"
    except MemoryError:
        return "takes more memory than there is"
    except (
        OSError,
        ValueError,
        SyntaxError,
        TypeError,
        ArithmeticError,
        LookupError,
        Image.DecompressionBombError,
    ) as error:
        return _shown(str(error).replace(str(path), path.name) or type(error).__name__)
    return None


def too_large(image: Any) -> str | None:
    """Whether an image that was opened, and is not decoded yet, claims more pixels than a picture has."""
    if image.width * image.height <= MAX_PIXELS:
        return None
    return f"claims {image.width:,} x {image.height:,} pixels, allowed are {MAX_PIXELS:,}"


def listed(path: Path, folder: Path, chosen: Chosen) -> LocatedFiles:
    """The files as the ranks find them, in the order of the labels, once they are written down."""
    return LocatedFiles.listed(chosen.paths, folder, path)


def _candidates(folder: Path) -> tuple[list[str], int]:
    """Images by their ending, in classes, and how many other files there are; links to folders are not followed."""
    paths, others = [], 0
    for entries, path in enumerate(_files(folder)):
        if entries >= MOST_ENTRIES:
            raise InputError(f"{folder.name} has more than {MOST_ENTRIES:,} files", field="data.path")
        inner = os.path.relpath(path, folder)
        usable = os.path.splitext(path)[1].lower() in FORMATS and "/" in inner
        # No artifact has a file with a backslash in its name.
        if usable and inner.isprintable() and _is_text(inner) and "\\" not in inner:
            paths.append(inner)
        else:
            others += 1
    return sorted(paths), others


def _files(folder: Path) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(root, name)


def _is_text(name: str) -> bool:
    """A name of other bytes than UTF-8 can't be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_NAME_LENGTH]
