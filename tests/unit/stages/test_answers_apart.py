"""A server's answers under load beside its own to single samples, from made-up ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.formats.base import TOLERANCE_RATIO
from inferbench_tasks.quality.noise import NOISE_RATIO, noise_ratio
from inferbench_tasks.stages.answers_apart import Apart, bound_of, passes_apart, with_apart
from inferbench_tasks.stages.answers_judged import judge
from inferbench_tasks.stages.answers_table import table_of
from inferbench_tasks.stages.asked import Asked
from inferbench_tasks.submission.schema import JobSpec

COUNT = 60
IDS = np.arange(100, 100 + COUNT)
#: The class of a sample is the last digit of its place, and its score 1; the next class has 0.5.
ALONE = np.eye(10, dtype=np.float32)[np.arange(COUNT) % 10]
ALONE[np.arange(COUNT), (np.arange(COUNT) + 1) % 10] = 0.5


def asked(scores: NDArray[np.float32], answered: NDArray[np.bool_] | None = None) -> Asked:
    """These answers."""
    there = np.full(len(scores), True) if answered is None else answered
    return Asked({"scores": scores}, there, np.ones(len(scores)), {}, 1)


def apart_of(under_load: NDArray[np.float32], bound_ratio: float) -> Apart:
    """Beside those to single samples."""
    return passes_apart(asked(under_load), asked(ALONE), {"scores": ALONE}, "classes", bound_ratio)


def job(
    precision: str = "fp32", device: str = "cpu", convert: float | None = None, own: float | None = None
) -> JobSpec:
    """At this precision on this device, with the bounds that a user sets."""
    return JobSpec.model_validate(
        {
            "name": "t",
            "model": {"kind": "zoo", "name": "digits"},
            "convert": {"precision": precision, "tolerance_ratio": convert},
            "serve": {"device": device},
            "evaluate": {"tolerance_ratio": own},
        }
    )


def test_an_int8_server_that_errs_in_batches_by_a_quarter_is_found() -> None:
    """What an int8 conversion may lose is no excuse: its samples are named, and the run does not count."""
    wrong = ALONE.copy()
    wrong[[7, 31]] *= 0.75
    assert TOLERANCE_RATIO["int8"] > 0.25 > noise_ratio("int8", "cpu")
    apart = apart_of(wrong, bound_of(job("int8")))
    document, reasons = judge(
        asked(wrong), asked(ALONE), {"scores": ALONE}, None, IDS, TOLERANCE_RATIO["int8"], apart=apart, exact=False
    )  # fmt: skip
    assert document["differing"] == {
        "compared": COUNT, "bound_ratio": 0.02, "beyond_tolerance": 2, "other_class": 0, "otherwise": 2,
        "largest_ratio": pytest.approx(0.25), "samples": [107, 131],
    }  # fmt: skip
    assert [reason.check for reason in reasons] == ["evaluate.differing"]
    assert reasons[0].text == (
        "2 of 60 samples are answered otherwise under load than one by one, beyond the bound "
        "(by up to 0.25 of the largest value, 0.02 is allowed): 107, 131"
    )


def test_a_class_that_the_noise_turns_is_listed_and_no_reason() -> None:
    """A tie within the bound: the sample is named behind those that are further apart, and the server is not called
    wrong for it."""
    alone, under_load = ALONE.copy(), ALONE.copy()
    alone[4, 5] = np.float32(1 - 1e-5)
    under_load[4, 5] = np.float32(1 + 1e-5)
    beside = passes_apart(
        asked(under_load), asked(alone), {"scores": alone}, "classes", noise_ratio("fp32", "cpu")
    )
    document, reasons = judge(
        asked(under_load), asked(alone), {"scores": alone}, None, IDS, 1e-3, apart=beside, exact=True
    )
    differing = document["differing"]
    assert not reasons
    assert (differing["beyond_tolerance"], differing["other_class"], differing["otherwise"]) == (0, 1, 1)
    assert differing["samples"] == [104] and 0 < differing["largest_ratio"] < 1e-4
    under_load[50] *= 0.5
    both = passes_apart(asked(under_load), asked(alone), {"scores": alone}, "classes", 1e-4)
    assert both.document(IDS)["samples"] == [150, 104]
    _, reasons = judge(
        asked(under_load), asked(alone), {"scores": alone}, None, IDS, 1.0, apart=both, exact=True
    )
    assert reasons[0].figure == 1 and reasons[0].text.endswith(": 150")


def test_each_sample_has_its_difference_in_the_file_of_answers() -> None:
    """With whether it is answered otherwise; null where one of both is missing, infinite where no number tells."""
    under_load = ALONE.copy()
    under_load[1] *= 0.9
    under_load[2, 0] = np.nan
    there = np.full(COUNT, True)
    there[3] = False
    source = {"scores": ALONE}
    apart = passes_apart(asked(under_load, there), asked(ALONE), source, "classes", 0.2)
    table = with_apart(table_of(asked(under_load, there), asked(ALONE), source, None, IDS), apart)
    assert table["apart_ratio"].to_pylist()[:5] == [0, pytest.approx(0.1), math.inf, None, 0]
    assert table["otherwise"].to_pylist()[:5] == [False, False, True, None, False]
    assert apart.document(IDS)["largest_ratio"] is None and apart.document(IDS)["compared"] == COUNT - 1


def test_answers_that_are_no_classes_have_none_that_differ() -> None:
    """The largest of several values names nothing: it may be any of them."""
    values = ALONE[:, ::-1].copy()
    beside = passes_apart(asked(values), asked(ALONE), {"scores": ALONE}, "values", 2.0)
    assert not beside.other_class.any() and not beside.otherwise.any()


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({}, 1e-4),
        ({"device": "gpu"}, 1e-3),  # TF32
        ({"precision": "fp16"}, 2e-2),
        ({"precision": "bf16"}, 1e-1),
        ({"precision": "int8"}, 2e-2),
        ({"precision": "int8", "device": "gpu"}, 2e-2),
        ({"convert": 0.01}, 0.01),  # in full precision it tells of sums in another order
        ({"convert": 1e-9}, 1e-4),
        ({"precision": "int8", "convert": 0.4}, 2e-2),  # there of what the conversion loses
        ({"own": 0.05}, 0.05),
        ({"own": 1e-6, "convert": 0.01}, 1e-6),
    ],
)
def test_the_bound_is_the_noise_of_what_is_served(given: dict[str, Any], bound: float) -> None:
    """By precision and device; the user's own bound stands; what a conversion may lose is no part of it."""
    assert bound_of(job(**given)) == bound


def test_of_a_file_that_came_quantised_the_bound_is_that_of_its_precision() -> None:
    """What it computes in nobody knows, and it may be int8; of a precision that nobody measured it is full."""
    assert bound_of(job(), "int8") == 2e-2 and bound_of(job(), "fp32") == bound_of(job(), "int4") == 1e-4
    assert bound_of(job("fp16"), "fp16") == 2e-2


def test_half_precision_weights_that_are_computed_with_in_full_have_the_bound_of_full() -> None:
    """ONNX's operators are of the type of their weights; OpenVINO computes in what the job asks for, and LiteRT in full
    even where that is half.
    """

    def of(form: str, precision: str = "fp32") -> JobSpec:
        made = job(precision)
        return made.model_copy(update={"convert": made.convert.model_copy(update={"format": form})})

    assert bound_of(of("onnx"), "fp16") == 2e-2
    assert bound_of(of("openvino"), "fp16") == bound_of(of("tflite", "fp16"), "fp16") == 1e-4
    assert bound_of(of("openvino", "fp16"), "fp16") == 2e-2


def test_no_bound_is_wider_than_what_a_conversion_may_lose() -> None:
    """Noise is less than a loss."""
    assert NOISE_RATIO.keys() == TOLERANCE_RATIO.keys()
    assert all(NOISE_RATIO[precision] <= TOLERANCE_RATIO[precision] for precision in NOISE_RATIO)
