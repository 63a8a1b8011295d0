"""Video files to frames, sampled at a rate; the image processors do the rest."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.processors.image import MAX_PIXELS

#: Frames of one video that are looked at; more are refused before they fill the memory.
MAX_DECODED = 100_000


class Video:
    """Encoded videos (MP4, WebM, AVI, GIF, ...) -> per video ``frames`` RGB pictures, ``h x w x 3`` uint8.

    The k-th frame is the one shown at ``k / rate_hz`` seconds; a video that ends earlier repeats its last.
    With ``frames: 1`` each video becomes a picture and not a clip, for models that take pictures.
    """

    kind: ClassVar[str] = "video"

    def __init__(self, rate_hz: float = 1.0, frames: int = 8) -> None:
        require("video")
        if not rate_hz > 0 or not 1 <= frames <= 1024:
            raise InputError("processors.video: rate_hz must be > 0, frames 1 to 1024")
        self.rate_hz, self.frames = float(rate_hz), frames

    def __call__(self, files: Sequence[bytes]) -> list[list[Array]] | list[Array]:
        clips = [self._decode(data, at) for at, data in enumerate(files)]
        return [clip[0] for clip in clips] if self.frames == 1 else clips

    def _decode(self, data: bytes, at: int) -> list[Array]:
        import av

        frames: list[Array] = []
        previous: Any = None
        try:
            with av.open(io.BytesIO(data), mode="r") as container:
                if not container.streams.video:
                    raise InputError(f"Video {at} has no picture in it")
                stream: Any = container.streams.video[0]
                if stream.width * stream.height > MAX_PIXELS:
                    raise InputError(f"Video {at} has {stream.width} x {stream.height} pixels per frame")
                start_s: float | None = None
                for count, frame in enumerate(container.decode(stream)):
                    if count > MAX_DECODED:
                        raise InputError(f"Video {at} has more than {MAX_DECODED:,} frames")
                    time_s = frame.time if frame.time is not None else count / self.rate_hz
                    start_s = time_s if start_s is None else start_s
                    # What was shown at a moment is the last frame that began before it.
                    while previous is not None and len(frames) < self.frames:
                        if time_s - start_s <= len(frames) / self.rate_hz + 1e-6:
                            break
                        frames.append(previous.to_ndarray(format="rgb24"))
                    previous = frame
                    if len(frames) == self.frames:
                        return frames
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise InputError(f"Video {at} can't be decoded: {error}") from error
        if previous is None:
            raise InputError(f"Video {at} has no frame in it")
        last = previous.to_ndarray(format="rgb24")
        return [*frames, *([last] * (self.frames - len(frames)))]
