"""Pre- and post-processing against values computed by hand."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError, UnknownKindError
from inferbench_tasks.processors.audio import Audio
from inferbench_tasks.processors.base import PROCESSORS, timed
from inferbench_tasks.processors.labels import Labels
from inferbench_tasks.processors.nms import NonMaximumSuppression, overlap_ratio


def png(width: int, height: int) -> bytes:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, width // 2 :] = 200
    data = io.BytesIO()
    image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


def sound(values: list[int], rate: int = 8000, channels: int = 1) -> bytes:
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.array(values, dtype="<i2").tobytes())
    return data.getvalue()


def test_every_kind_can_be_loaded() -> None:
    """The registry's names are real; an unknown one lists them."""
    assert [PROCESSORS.load(kind).kind for kind in PROCESSORS] == list(PROCESSORS)  # type: ignore[attr-defined]
    with pytest.raises(UnknownKindError, match="known: audio, image"):
        PROCESSORS.load("imagee")


@pytest.mark.parametrize(("layout", "shape"), [("nchw", (1, 3, 4, 4)), ("nhwc", (1, 4, 4, 3))])
def test_images_are_cut_from_the_middle(layout: str, shape: tuple[int, ...]) -> None:
    """Left half dark, right half bright stays so; values are (pixel - mean) / std."""
    processor = PROCESSORS.load("image")(size=4, mean=100.0, std=50.0, layout=layout)
    values = processor([png(80, 40)])
    assert values.shape == shape and values.dtype == np.float32
    row = values[0, 0, 0] if layout == "nchw" else values[0, 0, :, 0]
    assert row[0] == -2.0 and row[-1] == 2.0


def test_a_broken_image_is_named_by_its_position() -> None:
    """The second of two is the broken one."""
    processor = PROCESSORS.load("image")(size=4)
    with pytest.raises(InputError, match="Image 1 can't be decoded"):
        processor([png(8, 8), png(8, 8)[:40]])


def test_a_huge_image_is_refused_before_decoding() -> None:
    """A small file may claim any size."""
    image = pytest.importorskip("PIL.Image")
    data = io.BytesIO()
    image.new("1", (20_000, 20_000)).save(data, "PNG")
    with pytest.raises(InputError, match="Image 0"):
        PROCESSORS.load("image")(size=4)([data.getvalue()])


def test_sounds_are_scaled_mixed_and_padded() -> None:
    """Two channels become their mean; 16 bit becomes [-1, 1]; the rest is silence."""
    values = Audio(rate_hz=8000, samples=4)([sound([16384, 0, -32768, -32768], channels=2)])
    assert values.tolist() == [[0.25, -1.0, 0.0, 0.0]]


def test_sounds_are_resampled() -> None:
    """A tone keeps its frequency at another rate."""
    tone = (10_000 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)).astype(int).tolist()
    values = Audio(rate_hz=16_000, samples=16_000)([sound(tone)])[0]
    assert int(np.abs(np.fft.rfft(values)).argmax()) == 440


def test_a_broken_sound_is_refused() -> None:
    """Named by its position, with what is allowed."""
    with pytest.raises(InputError, match=r"Sound 0 can't be decoded.*PCM WAV"):
        Audio()([b"RIFFnothing"])


def test_labels_are_ranked() -> None:
    """Best first, with their scores."""
    named = Labels(["a", "b", "c"], top=2)(np.array([[0.1, 0.7, 0.2]]))
    assert named == [[("b", 0.7), ("c", 0.2)]]
    with pytest.raises(InputError, match="don't fit 3 names"):
        Labels(["a", "b", "c"])(np.zeros((1, 4)))


def test_suppression_keeps_one_box_per_object() -> None:
    """Overlapping boxes of a class leave the best; another class and a distant box stay."""
    raw = np.array(
        [
            [0, 0, 10, 10, 0.9, 0.0],
            [1, 0, 11, 10, 0.8, 0.0],  # overlaps the first
            [1, 0, 11, 10, 0.0, 0.7],  # as well, but of the other class
            [50, 50, 60, 60, 0.6, 0.0],
            [80, 80, 90, 90, 0.1, 0.0],  # below the least score
        ]
    )
    (found,) = NonMaximumSuppression()(raw[None])
    assert found.scores.tolist() == [0.9, 0.7, 0.6] and found.classes.tolist() == [0, 1, 0]


#: Two objects of class 0 and 1, one found twice, as YOLO writes them: centre, size, scores.
YOLO = np.array(
    [
        [320.0, 320.0, 40.0, 60.0, 0.9, 0.1],
        [322.0, 321.0, 40.0, 60.0, 0.8, 0.1],
        [100.0, 90.0, 30.0, 20.0, 0.1, 0.7],
    ]
)


def test_item_18_boxes_with_centres_are_refused_with_the_option_that_reads_them() -> None:
    """15.18: a width is no corner: nothing is suppressed by it, and with the option the right boxes come out."""
    with pytest.raises(InputError, match="3 of 3 are none.*Set box_format: cxcywh"):
        NonMaximumSuppression()(YOLO[None])
    (detections,) = NonMaximumSuppression(box_format="cxcywh")(YOLO[None])
    assert detections.boxes.tolist() == [[300, 290, 340, 350], [85, 80, 115, 100]]
    assert detections.classes.tolist() == [0, 1]


def test_item_18_a_transposed_output_is_refused_with_the_option_that_reads_it() -> None:
    """15.18: YOLOv8 gives n x (4 + classes) x boxes."""
    turned = np.concatenate([YOLO] * 40)[None].transpose(0, 2, 1)
    with pytest.raises(InputError, match="set layout: channels_first"):
        NonMaximumSuppression()(turned)
    (detections,) = NonMaximumSuppression(box_format="cxcywh", layout="channels_first")(turned)
    assert detections.scores.tolist() == [0.9, 0.7]


def test_item_18_objectness_counts_with_the_classes() -> None:
    """15.18: YOLOv5 to v7 have it in the fifth column; a sure class of no object is none."""
    raw = np.insert(YOLO, 4, [0.9, 0.1, 1.0], axis=1)
    (detections,) = NonMaximumSuppression(box_format="cxcywh", objectness=True)(raw[None])
    assert detections.scores == pytest.approx([0.81, 0.7])


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [({"box_format": "yxyx"}, (1, 2, 6), "allowed: xyxy, cxcywh, xywh"), ({"layout": "x"}, (1, 2, 6), "boxes_first"),
     ({}, (2, 6), r"shape \(2, 6\)"), ({}, (1, 2, 4), "needs 5 numbers"), ({"objectness": True}, (1, 2, 5), "needs 6")],
)  # fmt: skip
def test_item_18_what_is_no_output_of_a_detector_is_refused(
    settings: dict[str, Any], shape: tuple[int, ...], message: str
) -> None:
    """15.18: an unknown option or shape is named with what is allowed."""
    with pytest.raises(InputError, match=message):
        NonMaximumSuppression(**settings)(np.zeros(shape))


def test_overlap_is_intersection_over_union() -> None:
    """Half of each of two equal boxes shared is a third; empty boxes share nothing."""
    box = np.array([0.0, 0.0, 2.0, 2.0])
    others = np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    assert overlap_ratio(box, others) == pytest.approx([1 / 3, 1.0, 0.0])


def test_time_is_told() -> None:
    """The caller gets result and nanoseconds."""
    result, took_ns = timed(Labels(["a", "b"]), np.array([[0.0, 1.0]]))
    assert result == [[("b", 1.0)]] and took_ns > 0
