"""Pictures with one step of the pre-processing changed, against values computed by hand."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.datasets.base import open_dataset
from inferbench_tasks.datasets.varied import Recipe, made, recipes
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo_digits import Digits
from inferbench_tasks.submission.vary import VarySpec

#: 2 x 2 pixels of three colours: 0, 20, 40 the first, 180, 200, 220 the last.
COLOURS = 20 * np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
#: 4 x 2 pixels of one grey for each column.
COLUMNS = np.broadcast_to(np.array([0, 70, 140, 210], dtype=np.uint8)[None, :, None], (2, 4, 3))


def file(pixels: NDArray[np.uint8], kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(data, kind)
    return data.getvalue()


def model(*shape: int, dtype: str = "float32") -> ModelArtifact:
    return ModelArtifact(
        name="m", framework="onnx", format="onnx", path="", digest="", task="image-classification",
        inputs=(TensorSpec(name="input", dtype=dtype, shape=shape),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(10,)),),
    )  # fmt: skip


def varied(
    pixels: NDArray[np.uint8], shape: tuple[int, ...] = (3, 2, 2), takes: str = "float32", **vary: Any
) -> NDArray[Any]:
    """The one sample's input; its model takes pixels in [0, 1]."""
    ((_, recipe),) = recipes(VarySpec.model_validate(vary), Digits("digits"), model(*shape, dtype=takes))
    row: NDArray[Any] = made([file(pixels)], [recipe], takes, Watch()).inputs[0][0]
    return row


def test_colours_are_turned_round() -> None:
    """Blue, green, red: the first pixel's 0, 20, 40 are 40, 20, 0."""
    row = varied(COLOURS, colour_order=["bgr"])
    assert (row[:, 0, 0] * 255).round().tolist() == [40, 20, 0]


@pytest.mark.parametrize(
    ("to", "first", "last"),
    [
        ("none", [0, 20, 40], [180, 200, 220]),
        ("minus_one_to_one", [-1, -107.5 / 127.5, -87.5 / 127.5], [52.5 / 127.5, 72.5 / 127.5, 92.5 / 127.5]),
        (
            "imagenet",
            [-0.485 / 0.229, (20 / 255 - 0.456) / 0.224, (40 / 255 - 0.406) / 0.225],
            [(180 / 255 - 0.485) / 0.229, (200 / 255 - 0.456) / 0.224, (220 / 255 - 0.406) / 0.225],
        ),
    ],
)
def test_pixels_are_normalised_otherwise(to: str, first: list[float], last: list[float]) -> None:
    """Of the first and the last pixel, each colour."""
    row = varied(COLOURS, normalise=[to])
    np.testing.assert_allclose(row[:, 0, 0], first, rtol=1e-5)
    np.testing.assert_allclose(row[:, 1, 1], last, rtol=1e-5)


def test_values_are_rounded_and_keep_their_type() -> None:
    """To whole numbers 120 / 255 is 0 and 140 / 255 is 1; to half precision 20 / 255 is 1285 / 16384."""
    whole, halves = varied(COLOURS, dtype=["uint8"]), varied(COLOURS, dtype=["fp16"])
    assert whole.dtype == halves.dtype == np.float32
    assert whole.transpose(1, 2, 0).ravel().tolist() == [0.0] * 7 + [1.0] * 5
    assert halves[1, 0, 0] == 1285 / 16384 != np.float32(20 / 255)


@pytest.mark.parametrize(("shape", "to"), [((3, 2, 2), "nhwc"), ((2, 2, 3), "nchw")])
def test_values_in_the_other_layout_are_read_as_if_in_the_models(shape: tuple[int, ...], to: str) -> None:
    """The numbers of one layout in the shape of the other, none lost and none moved."""
    written = COLOURS if to == "nhwc" else COLOURS.transpose(2, 0, 1)
    row = varied(COLOURS, shape, layout=[to])
    assert row.shape == shape
    assert (row.ravel() * 255).round().tolist() == written.ravel().tolist()


@pytest.mark.parametrize(
    ("vary", "columns"),
    [
        ({"resize": ["nearest"]}, [70, 140]),  # the middle of the model's shape: no pixel has to be made
        ({"crop": ["none"]}, [50, 160]),  # triangles over four columns: 3/7, 3/7, 1/7
        ({"crop": [0.5]}, [88, 123]),  # between two columns: 70 and 140 by 3/4 and 1/4, 87.5 and 122.5
    ],
)
def test_another_part_of_the_picture(vary: dict[str, Any], columns: list[int]) -> None:
    """Of four columns a model of two takes the middle ones, all four squeezed, or half of the middle."""
    row = varied(COLUMNS, **vary)
    assert (row[0, 0] * 255).round().tolist() == columns


@pytest.mark.parametrize(("to", "columns"), [("nearest", [70, 210]), ("box", [35, 175])])
def test_another_filter(to: str, columns: list[int]) -> None:
    """Four columns become two: by the pixel in their middle, by their mean."""
    square = np.concatenate([COLUMNS, COLUMNS])
    assert (varied(square, resize=[to])[0, 0] * 255).round().tolist() == columns


def test_another_decoder_gives_other_pixels_of_a_jpeg_alone() -> None:
    """Of a PNG there is one right answer; how the colours of a JPEG are spread over pixels is the decoder's choice."""
    pytest.importorskip("av")
    noise = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    taken = model(3, 16, 16)
    ((_, recipe),) = recipes(VarySpec(decoder=("ffmpeg",)), Digits("digits"), taken)
    plain = Recipe({**recipe.settings, "decoder": "pillow"})
    png, jpeg = made([file(noise), file(noise, "JPEG")], [plain, recipe], "float32", Watch()).inputs
    assert np.array_equal(png[0], jpeg[0]) and not np.array_equal(png[1], jpeg[1])


@pytest.mark.parametrize(
    ("shape", "takes", "vary", "message"),
    [
        ((1, 2, 2), "float32", {"colour_order": ["bgr"]}, "bgr: the model takes one colour"),
        ((3, 2, 2), "float32", {"colour_order": ["rgb"]}, "rgb: that is the order in which the model takes"),
        ((1, 2, 2), "float32", {"layout": ["nhwc"]}, "nhwc: of one colour both layouts are the same"),
        ((3, 2, 2), "float32", {"layout": ["nchw"]}, "nchw: that is the model's own layout"),
        ((3, 2, 2), "float32", {"normalise": ["unit"]}, "unit: that is how the model's pixels are"),
        ((1, 2, 2), "float32", {"normalise": ["imagenet"]}, "imagenet: it is of three colours"),
        ((3, 2, 2), "uint8", {"dtype": ["fp16"]}, "fp16: the model takes uint8, in which there is nothing"),
        ((3, 2, 2), "float16", {"dtype": ["fp16"]}, "fp16: the model takes just that"),
        ((64,), "float32", {"resize": ["box"]}, r"m takes input float32\[64\], which is no image"),
    ],
)
def test_what_makes_no_difference_for_the_model_is_refused(
    shape: tuple[int, ...], takes: str, vary: dict[str, Any], message: str
) -> None:
    """By its name and the reason, before any sample is made."""
    with pytest.raises(InputError, match=message):
        varied(COLOURS, shape, takes, **vary)


def test_every_file_is_timed_in_every_way() -> None:
    """One number each, of CPU time; inputs stand in the order of the files."""
    ways = [recipe for _, recipe in recipes(VarySpec(crop=(0.5, "none")), Digits("digits"), model(3, 2, 2))]
    got = made([file(COLUMNS), file(COLUMNS[:, ::-1])], ways, "float32", Watch())
    assert got.took_ms.shape == (2, 2) and (got.took_ms > 0).all()
    assert np.array_equal(got.inputs[1][0], got.inputs[1][1][..., ::-1])


def test_the_digits_as_files_are_the_digits() -> None:
    """The same labels in the same order; each grey level is the nearest of 256."""
    pictures, arrays = (open_dataset(name, None, None) for name in ("digits-png", "digits"))  # type: ignore[arg-type]
    rows = np.array([3, 449])
    assert pictures.labels is not None and arrays.labels is not None
    assert pictures.labels.tolist() == arrays.labels.tolist()
    for data, image in zip(pictures.rows(rows), arrays.rows(rows), strict=True):
        assert np.abs(np.asarray(Image.open(io.BytesIO(data))) / 255 - image).max() <= 0.5 / 255
