"""The user's image files: which can be read, and what is wrong with the others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.errors import InputError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
MAX_FILES = 200_000
MAX_PIXELS = 64_000_000
MAX_FILE_BYTES = 256 << 20
#: More broken images than this share are no accident: the data set is refused.
MAX_BROKEN_RATIO = 0.01
#: So many are named in what is said.
_NAMED = 5


def problem(path: Path) -> str | None:
    """Why an image can't be read, None if it can: its head and its whole content are decoded."""
    from PIL import Image, UnidentifiedImageError

    from inferbench_tasks.processors.image import FORMATS, too_deep

    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return f"it has more than {MAX_FILE_BYTES:,} bytes"
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    return f"{image.width} x {image.height} pixels are more than {MAX_PIXELS:,}"
                image.load()
                if reason := too_deep(image.mode):
                    return reason
    except (
        UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:  # fmt: skip
        return " ".join(str(error).split())[:200] or type(error).__name__
    return None


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of an image that can be read, as its pixels lie (what EXIF says of turning is left alone)."""
    from PIL import Image

    from inferbench_tasks.processors.image import FORMATS

    with Image.open(path, formats=FORMATS) as image:
        return image.width, image.height


def readable(files: Sequence[Path], places: Sequence[str], where: str) -> tuple[list[int], tuple[str, ...]]:
    """Which of the files can be read, by their numbers, and what is wrong with the others, at their ``places``.

    InputError, which names the first, where more than the allowed share can't be read, or all.
    """
    problems = [problem(file) for file in files]
    broken = tuple(f"{place}: {why}" for place, why in zip(places, problems, strict=True) if why)
    _require_few(broken, len(files), where)
    return [at for at, why in enumerate(problems) if not why], broken


def _require_few(broken: Sequence[str], total: int, where: str) -> None:
    if len(broken) > MAX_BROKEN_RATIO * total or len(broken) == total:
        named = "; ".join(broken[:_NAMED]) + (
            f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        )
        raise InputError(
            f"{where}: {len(broken)} of {total} images can't be read, allowed are {MAX_BROKEN_RATIO:.0%}: {named}",
            field="evaluate.path",
        )
