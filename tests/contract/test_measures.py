"""Every measure against targets keeps one contract; values that were worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import judge, require
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure
from inferbench_tasks.quality.texts import distance

_RNG = np.random.default_rng(11)
_MASKS = _RNG.integers(0, 3, (20, 6, 5))
_CORNERS = _RNG.integers(0, 30, (20, 2, 2))
_BOXES = np.concatenate(
    [
        _RNG.integers(0, 2, (20, 2, 1)),
        _CORNERS,
        _CORNERS + _RNG.integers(8, 20, (20, 2, 2)),
        np.zeros((20, 2, 1)),
    ],
    axis=2,
).astype(np.float32)
#: Measure -> of how many of the picture's own pixels one of the boxes' is, so that all are of its size: 64 to 361.
_PIXELS = {"average_precision_small": 1, "average_precision_medium": 20, "average_precision_large": 200}
#: Kind of targets -> targets, answers that are wholly right.
_RIGHT: dict[str, tuple[Any, Any]] = {
    "numbers": (np.arange(20.0), np.arange(20.0)[:, None] ** 3),
    "pictures": (_RNG.random((20, 1, 12, 12)), None),
    "masks": (_MASKS, None),
    "texts": (np.array([f"right answer number {at}" for at in range(20)]), None),
    "boxes": (
        _BOXES,
        np.concatenate(
            [_BOXES[..., 1:5], np.linspace(0.9, 0.1, 40).reshape(20, 2, 1), _BOXES[..., :1]], axis=2
        ),
    ),
}
#: Measure -> what wholly right answers have.
_BEST = {"psnr_db": 100.0, "word_error_ratio": 0.0, "character_error_ratio": 0.0}
NAMES = [name for name in MEASURES if issubclass(MEASURES.load(name), TargetMeasure)]


def answered(kind: str, targets: Any, output: Any) -> Answered:
    """Answers of one output."""
    return Answered({"y": output}, {"y": output}, targets={kind: targets})


def right(name: str) -> tuple[TargetMeasure, Any, Any]:
    """The measure, targets, and answers that are wholly right."""
    measure = MEASURES.load(name)()
    assert isinstance(measure, TargetMeasure)
    targets, output = _RIGHT[measure.target]
    if name in _PIXELS:
        targets = sized(targets, _PIXELS[name])
    return measure, targets, targets if output is None else output


def sized(boxes: Any, pixels: float) -> Any:
    """The boxes with the areas of their objects, and with how many pixels one is."""
    sides = boxes[..., 3:5] - boxes[..., 1:3]
    area = np.where(boxes[..., 0] < 0, 0, sides.prod(axis=-1) * pixels)
    return np.concatenate([boxes, area[..., None], np.full((*area.shape, 1), pixels)], axis=2)


def spoilt(output: Any) -> Any:
    """The answers to a third of the samples are those to others."""
    other = output.copy()
    other[::3] = np.roll(output[::3], 1, axis=0)
    return other


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_have_the_best_value_and_worse_ones_a_worse(name: str) -> None:
    """Whatever the order of the samples is; the interval has the value inside; the measure says what it is."""
    measure, targets, output = right(name)
    best = measure.of(answered(measure.target, targets, output)).value
    assert best == pytest.approx(_BEST.get(name, 1.0))
    worse = spoilt(output)
    found = measure.of(answered(measure.target, targets, worse))
    assert found.value < best if measure.better == "higher" else found.value > best
    assert found.low is not None and found.high is not None and found.low <= found.value <= found.high
    order = np.random.default_rng(3).permutation(len(targets))
    shuffled = measure.of(answered(measure.target, targets[order], worse[order])).value
    assert shuffled == pytest.approx(found.value)
    assert measure.title and measure.formula


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_is_refused_with_its_reason(name: str) -> None:
    """No targets, no samples, other counts and shapes, NaN, a model of random weights; InputError names what fits."""
    measure, targets, output = right(name)
    bare = Answered({"y": output}, {"y": output})
    assert f"target_{measure.target}" in str(measure.missing(bare))
    with pytest.raises(InputError, match=f"{name} can't be had on mine"):
        require(bare, [name], "mine")
    kind = measure.target
    require(answered(kind, targets, output), [name], "mine")
    assert measure.missing(answered(kind, targets[:0], output[:0])) == "there are no samples"
    assert measure.missing(answered(kind, targets, output[:-1]))
    assert measure.missing(answered(kind, targets, np.zeros((20, 7, 3, 2, 2))))
    assert measure.missing(answered(kind, np.zeros((20, 7, 3, 2, 2)), output))
    if output.dtype.kind == "f":
        broken = output.astype(np.float64)
        broken.flat[0] = math.nan
        assert measure.missing(answered(kind, targets, broken)) == "some answers are no finite numbers"
    random = Answered({"y": output}, {"y": output}, targets={kind: targets}, untargeted="random weights")
    assert measure.missing(random) == "random weights"


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_has_a_value_without_an_interval_or_is_refused(name: str) -> None:
    """Rank correlation needs three."""
    measure, targets, output = right(name)
    one = answered(measure.target, targets[:1], output[:1])
    if reason := measure.missing(one):
        assert name == "target_spearman" and "three" in reason
        return
    found = measure.of(one)
    assert found.value == pytest.approx(_BEST.get(name, 1.0)) and found.low is None


def value(name: str, targets: Any, output: Any) -> float:
    """The measure's value of these."""
    measure = MEASURES.load(name)()
    assert isinstance(measure, TargetMeasure)
    found = answered(measure.target, np.asarray(targets), np.asarray(output))
    assert measure.missing(found) is None
    return measure.of(found).value


def test_spearman_by_hand() -> None:
    """1 - 6 * (1 + 1) / (4 * 15) of one swap among four."""
    assert value("target_spearman", [1, 2, 3, 4], [[10.0], [30.0], [20.0], [40.0]]) == pytest.approx(0.8)


def test_answers_are_normalised_as_squads_are() -> None:
    """Case, articles and punctuation do not count; of several right ones the best; F1 2 * 2 / (3 + 2)."""
    golds = [["The cat!", ""], ["a red car", "blue"], ["", ""]]
    assert value("exact_match_ratio", golds, ["cat", "Blue.", ""]) == 1.0
    assert value("exact_match_ratio", golds, ["", "green", "x"]) == 0.0
    assert value("answer_f1", ["red car"], ["a big red car"]) == pytest.approx(0.8)


def test_error_rates_are_of_all_words_together() -> None:
    """One word replaced and one too many of 2 + 3 words; of 'kitten' and 'sitting' three characters."""
    assert value("word_error_ratio", ["a b", "c d e"], ["a x", "c d e f"]) == pytest.approx(2 / 5)
    assert value("character_error_ratio", ["kitten"], ["sitting"]) == pytest.approx(3 / 6)
    assert distance("", "abc") == distance("abc", "") == 3 and distance("flaw", "lawn") == 2


def test_psnr_and_ssim_by_hand() -> None:
    """An error of 0.1 everywhere is 20 dB; two flat pictures leave (2ab + c1) / (a^2 + b^2 + c1)."""
    grey, other = np.full((1, 1, 12, 12), 0.5), np.full((1, 1, 12, 12), 0.6)
    assert value("psnr_db", grey, other) == pytest.approx(20.0)
    assert value("ssim", grey, other) == pytest.approx((2 * 0.3 + 1e-4) / (0.61 + 1e-4))


def test_ssim_of_pictures_with_texture() -> None:
    """Against sums over each window of 11 x 11, weights exp(-r^2 / 4.5) that add up to 1, as the paper has it."""
    rng = np.random.default_rng(4)
    one = rng.random((1, 1, 13, 15))
    other = np.clip(one + rng.normal(0, 0.2, one.shape), 0, 1)
    y, x = np.mgrid[-5:6, -5:6]
    weights = np.exp(-(x**2 + y**2) / 4.5)
    weights /= weights.sum()
    found = []
    for row, column in np.ndindex(3, 5):
        a, b = (picture[0, 0, row : row + 11, column : column + 11] for picture in (one, other))
        mean_a, mean_b = (weights * a).sum(), (weights * b).sum()
        var_a, var_b = (weights * (a - mean_a) ** 2).sum(), (weights * (b - mean_b) ** 2).sum()
        both = (weights * (a - mean_a) * (b - mean_b)).sum()
        above = (2 * mean_a * mean_b + 1e-4) * (2 * both + 9e-4)
        found.append(above / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4)))
    assert value("ssim", one, other) == pytest.approx(float(np.mean(found)), rel=1e-6)


def refused(name: str, targets: Any, **outputs: Any) -> str:
    """Why the measure can't be had of these outputs."""
    measure = MEASURES.load(name)()
    assert isinstance(measure, TargetMeasure)
    arrays = {output: np.asarray(array) for output, array in outputs.items()}
    return measure.missing(Answered(arrays, arrays, targets={measure.target: np.asarray(targets)})) or ""


_BYTES = np.arange(2 * 144).reshape(2, 1, 12, 12).astype(np.uint8)
_BOX = [[[0, 0, 0, 10, 10, 0]]]


@pytest.mark.parametrize(
    ("name", "targets", "output", "says"),
    [
        ("psnr_db", _BYTES, (_BYTES / 255).astype(np.float32), "within -1 and 1, the targets are uint8"),
        ("ssim", _BYTES / 255, _BYTES, "whole numbers (uint8), the targets floats"),
        ("psnr_db", _BYTES / 255, _BYTES / 127.5 - 1, "outside of 0 to 1"),
        ("average_precision", _BOX, [[[0, 0, 10, 10, -0.5, 0.0]]], "from 0 to 1"),
        ("average_precision", _BOX, [[[50, 50, 10, 10, 0.9, 0.0]]], "x2 < x1"),
        ("average_precision_50", _BOX, [[[0, 0, 10, 10, 0.9, 0.5]]], "whole numbers"),
        ("average_precision", _BOX, [[[0, 0, 1, 1, 0.9, 0.0]]], "are they shares of the picture's sides"),
        ("average_precision_small", _BOX, [[[0, 0, 10, 10, 0.9, 0.0]]], "don't say the objects' areas"),
        ("target_spearman", np.arange(20), 2**60 + np.arange(20)[:, None], "64-bit floats"),
    ],
)
def test_answers_of_another_form_are_refused_where_a_figure_would_look_right(
    name: str, targets: Any, output: Any, says: str
) -> None:
    """Other scales, logits, width and height for corners, numbers that a float merges: no figure tells those apart."""
    assert says in refused(name, targets, y=output)


@pytest.mark.parametrize("name", NAMES)
def test_of_several_outputs_that_fit_none_is_taken(name: str) -> None:
    """The first one may be the noise of the second; both are named."""
    _, targets, output = right(name)
    assert "several outputs fit" in refused(name, targets, first=spoilt(output), second=output)
    assert "first, second" in refused(name, targets, first=spoilt(output), second=output)


def test_a_value_that_is_no_number_is_left_out_with_its_reason() -> None:
    """One pixel of four hundred is so far off that its square is infinite."""
    targets = np.full((2, 1, 20, 20), 0.5)
    output = targets.copy()
    output[:, 0, 0, 0] = 1e200
    judged = judge(answered("pictures", targets, output), ["psnr_db"])
    assert not judged.values and "no figure" in judged.left_out["psnr_db"]


def test_resamples_without_a_value_leave_no_interval() -> None:
    """One target of twenty has a word: more than a third of the resamples have none, and the others are no interval."""
    targets = np.array(["", *[""] * 18, "word"])
    output = np.array([*["one two"] * 19, "word"])
    found = MEASURES.load("word_error_ratio")().of(answered("texts", targets, output))
    assert found.value == 38.0 and found.low is None and "resamples have no value" in found.method


def test_a_pixel_that_an_answer_names_void_has_no_class_there() -> None:
    """255 as below 0: three of four pixels are named, one of them wrong; what lies at void targets counts nowhere."""
    targets = np.array([[[0, 0, 1, 1, 255]]])
    for void in (255, -1):
        named = np.array([[[0, 0, 1, void, 5000]]])
        assert value("mean_iou", targets, named) == pytest.approx((1 + 1 / 2) / 2)


def test_mean_iou_by_hand() -> None:
    """Class 0: 2 of 3 pixels, class 1: 1 of 2; a pixel of 255 is in neither; scores name their largest class."""
    targets, named = np.array([[[0, 0, 1, 1, 255]]]), np.array([[[0, 0, 0, 1, 1]]])
    assert value("mean_iou", targets, named) == pytest.approx((2 / 3 + 1 / 2) / 2)
    scores = np.moveaxis(np.eye(2)[named], -1, 1)
    assert value("mean_iou", targets, scores) == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_average_precision_by_hand() -> None:
    """One of two boxes is found first (IoU 1), then a wrong one: precision 1 up to recall 0.5, 51 of 101 recalls."""
    targets = [[[0, 0, 0, 10, 10, 0], [0, 20, 20, 30, 30, 0]]]
    found = [[[0, 0, 10, 10, 0.9, 0], [50, 50, 60, 60, 0.8, 0]]]
    assert value("average_precision_50", targets, found) == pytest.approx(51 / 101)
    assert value("average_precision", targets, found) == pytest.approx(51 / 101)
    # IoU 0.8: seven of ten thresholds, 0.50 to 0.80.
    near = [[[0, 0, 10, 8, 0.9, 0], [0, 0, 0, 0, 0, -1]]]
    assert value("average_precision", targets, near) == pytest.approx(0.7 * 51 / 101)
    assert value("average_precision_50", targets, near) == pytest.approx(51 / 101)


def test_an_object_counts_in_its_own_size_alone() -> None:
    """By the area of the object, 900 or 1,600 pixels, whatever its box has. What is found where there is nothing counts
    as wrong in its own size only: 50 x 50 is medium.
    """
    targets = np.array([[[0, 0, 0, 40, 40, 0, 900, 1], [0, 100, 100, 140, 140, 0, 1600, 1]]], dtype=float)
    nothing = [200, 200, 250, 250, 0.9, 0]
    found = [[nothing, [0, 0, 40, 40, 0.8, 0], [100, 100, 140, 140, 0.7, 0]]]
    assert value("average_precision_small", targets, found) == pytest.approx(1.0)
    assert value("average_precision_medium", targets, found) == pytest.approx(1 / 2)
    assert value("average_precision", targets, found) == pytest.approx(2 / 3)
    # In a picture ten times as wide and high what is found is larger, and the objects are what they are.
    targets[..., 7] = 100
    assert value("average_precision_medium", targets, found) == pytest.approx(1.0)
    assert "of an object of that size" in refused("average_precision_large", targets, y=np.array(found))


def test_what_lies_in_a_crowd_is_neither_right_nor_wrong() -> None:
    """Two boxes in a crowd do not count before the one that is to be found; outside of it they are wrong."""
    boxes = [[[1, 1, 3, 3, 0.9, 0], [4, 4, 6, 6, 0.8, 0], [20, 20, 30, 30, 0.7, 0]]]
    crowd = [[[0, 0, 0, 10, 10, 1], [0, 20, 20, 30, 30, 0]]]
    assert value("average_precision", crowd, boxes) == pytest.approx(1.0)
    alone = [[[-1, 0, 0, 0, 0, 0], [0, 20, 20, 30, 30, 0]]]
    assert value("average_precision", alone, boxes) == pytest.approx(1 / 3)
