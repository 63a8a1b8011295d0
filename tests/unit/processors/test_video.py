"""Videos: frames at a rate, on a real encoded file made here."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.handles import ProcessorStep
from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.requests.ragged import objects

av: Any = pytest.importorskip("av")
FPS = 8


def video(frames: int, kind: str = "mp4", codec: str = "mpeg4") -> bytes:
    """A picture that gets brighter: frame k is 10 k everywhere."""
    data = io.BytesIO()
    with av.open(data, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"qscale": "1"}
        for k in range(frames):
            picture = np.full((48, 64, 3), 10 * k, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return data.getvalue()


def pipeline(rate_hz: float, frames: int) -> Pipeline:
    steps = [
        ProcessorStep(kind="video", settings={"rate_hz": rate_hz, "frames": frames}),
        ProcessorStep(kind="image", settings={"size": 16, "std": 1.0}),
    ]
    return Pipeline(steps, [], ["clip"])


@pytest.mark.parametrize(("kind", "codec"), [("mp4", "mpeg4"), ("webm", "libvpx"), ("matroska", "libx264")])
def test_frames_are_those_shown_at_the_moments_of_the_rate(kind: str, codec: str) -> None:
    """8 frames per second sampled at 2 Hz: frames 0, 4, 8, 12; then the image processor's size and layout."""
    arrays, spent = pipeline(2.0, 4).before(objects([video(16, kind, codec)]))
    clip = arrays["clip"]
    assert clip.shape == (1, 4, 3, 16, 16) and clip.dtype == np.float32
    np.testing.assert_allclose(clip[0].mean(axis=(1, 2, 3)), [0, 40, 80, 120], atol=6)
    assert spent["video"] > 0 and spent["image"] > 0


def test_a_short_video_repeats_its_last_frame() -> None:
    """Four frames at 8 Hz wanted, two there."""
    arrays, _ = pipeline(8.0, 4).before(objects([video(2)]))
    np.testing.assert_allclose(arrays["clip"][0].mean(axis=(1, 2, 3)), [0, 10, 10, 10], atol=6)


def test_one_frame_is_a_picture() -> None:
    """For models that take pictures: no axis of frames; a batch of two videos."""
    arrays, _ = pipeline(1.0, 1).before(objects([video(2), video(3)]))
    assert arrays["clip"].shape == (2, 3, 16, 16)


@pytest.mark.parametrize("data", [b"", b"no video at all", video(4)[:200]])
def test_a_broken_video_is_named_by_its_position(data: bytes) -> None:
    """The second of two is the broken one."""
    with pytest.raises(InputError, match="Video 1 "):
        pipeline(1.0, 1).before(objects([video(2), data]))
