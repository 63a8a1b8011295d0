"""Images, as files or pixels, to a float tensor: decode, resize, crop, normalise."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require

#: More pixels than that are refused before they are decoded: a small file may claim any size.
MAX_PIXELS = 64_000_000
#: What is decoded: others (EPS, ...) would start programs, or are no pictures of samples.
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")


Decoder = Literal["pillow", "ffmpeg"]
Filter = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]


def too_deep(mode: str) -> str | None:
    """Why Pillow's ``mode`` can't be taken: of more than 8 bits nearly all would become white. None if it can."""
    deep = mode.startswith(("I", "F"))
    return f"its pixels have more than 8 bits (mode {mode}); convert it to 8 bits" if deep else None


class Image:
    """Encoded images (PNG, JPEG, ...) -> ``n x 3 x height x width`` (or channels last) float32.

    Takes decoded pictures (``h x w x 3`` uint8) too, and clips of them, which become
    ``n x frames x 3 x height x width``.

    The shorter side is scaled to ``size / crop_ratio``, then the middle ``size x size`` is cut out; with ``squeezed``
    the whole picture becomes that, whatever its shape. Pixels become ``(value - mean) / std`` with ``mean`` and ``std``
    in units of 0 to 255, of each colour in ``colour_order`` where there are several. ``resize``: Pillow's filter.
    ``decoder``: of files; ``ffmpeg`` is that of PyAV, of an animation the first picture counts, as with Pillow.
    """

    kind: ClassVar[str] = "image"

    def __init__(
        self,
        size: int | tuple[int, int],
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 255.0,
        channels: Literal[1, 3] = 3,
        layout: Literal["nchw", "nhwc"] = "nchw",
        crop_ratio: float = 1.0,
        squeezed: bool = False,
        resize: Filter = "bilinear",
        colour_order: Literal["rgb", "bgr"] = "rgb",
        decoder: Decoder = "pillow",
    ) -> None:
        require("torch")
        for name, value, allowed in (
            ("resize", resize, get_args(Filter)),
            ("colour_order", colour_order, ("rgb", "bgr")),
            ("decoder", decoder, get_args(Decoder)),
        ):
            if value not in allowed:
                raise InputError(f"processors.image: {name} is {value!r}; allowed: {', '.join(allowed)}")
        if decoder == "ffmpeg":
            require("video")
        self.height, self.width = (size, size) if isinstance(size, int) else tuple(size)
        if min(self.height, self.width) < 1 or not 0 < crop_ratio <= 1 or np.any(np.asarray(std) == 0):
            raise InputError("processors.image: size must be >= 1, crop_ratio in (0, 1], std not 0")
        self.mean = np.asarray(mean, dtype=np.float32)
        self.std = np.asarray(std, dtype=np.float32)
        self.channels, self.layout, self.crop_ratio = channels, layout, crop_ratio
        self.squeezed, self.resize, self.colour_order, self.decoder = squeezed, resize, colour_order, decoder

    def __call__(self, images: Sequence[Any]) -> Array:
        """``images``: encoded files, decoded pictures, or lists of either (clips)."""
        if len(images) and isinstance(images[0], list):
            return np.stack([self(clip) for clip in images])
        pixels = np.stack([self._fitted(self._decode(data, at)) for at, data in enumerate(images)])
        if self.colour_order == "bgr":
            pixels = pixels[..., ::-1]
        values = (pixels.astype(np.float32) - self.mean) / self.std
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2) if self.layout == "nchw" else values)

    def _decode(self, data: Any, at: int) -> Any:
        """Pillow's image, in the colours that the model takes."""
        image: Any
        from PIL import Image as Pillow
        from PIL import UnidentifiedImageError

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Pillow.DecompressionBombWarning)
                decoded = isinstance(data, np.ndarray)
                image = Pillow.fromarray(data) if decoded else Pillow.open(io.BytesIO(data), formats=FORMATS)
                if image.width * image.height > MAX_PIXELS:
                    raise InputError(
                        f"Image {at} has {image.width} x {image.height} pixels; allowed are {MAX_PIXELS:,}"
                    )
                if reason := too_deep(image.mode):
                    raise InputError(f"Image {at} can't be taken: {reason}")
                if self.decoder == "ffmpeg" and not decoded:
                    image = Pillow.fromarray(_by_ffmpeg(data))
                return image.convert("L" if self.channels == 1 else "RGB")
        except (
            UnidentifiedImageError, OSError, ValueError, SyntaxError, TypeError, Pillow.DecompressionBombError,
            Pillow.DecompressionBombWarning,
        ) as error:  # fmt: skip
            raise InputError(f"Image {at} can't be decoded: {error}") from error

    def _fitted(self, image: Any) -> Array:
        """``height x width x channels``: the wanted part of an image in the wanted size."""
        from PIL import Image as Pillow

        width, height = float(image.width), float(image.height)
        if not self.squeezed:
            # The largest box of the wanted shape in the middle, less what the crop leaves out.
            scale = min(image.width / self.width, image.height / self.height) * self.crop_ratio
            width, height = self.width * scale, self.height * scale
        left, top = (image.width - width) / 2, (image.height - height) / 2
        image = image.resize(
            (self.width, self.height),
            Pillow.Resampling[self.resize.upper()],
            box=(left, top, left + width, top + height),
        )
        return np.asarray(image).reshape(self.height, self.width, self.channels)


def _by_ffmpeg(data: bytes) -> Array:
    """The file's first picture, ``h x w x 3`` uint8; ValueError where FFmpeg can't decode it."""
    import av

    try:
        with av.open(io.BytesIO(data), mode="r") as container:
            return next(container.decode(video=0)).to_ndarray(format="rgb24")
    except (av.error.FFmpegError, StopIteration, IndexError) as error:
        raise ValueError(f"FFmpeg: {str(error) or 'it has no picture'}") from error
