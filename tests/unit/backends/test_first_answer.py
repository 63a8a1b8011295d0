"""A server's first answer against the source model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.backends.first_answer import check_answer, check_requests, first_rows, load_samples
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import InputError, ServerError

Y = np.array([[1.0, -2.0], [3.0, 4.0]], dtype=np.float32)
LABELS = np.array([0, 1])


def model(precision: str = "fp32") -> ModelArtifact:
    """Two outputs: scores and labels."""
    return ModelArtifact(
        name="m",
        framework="torch",
        format="onnx",
        precision=precision,
        path="m",
        digest="0",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(-1, 3)),),
        outputs=(
            TensorSpec(name="y", dtype="float32", shape=(2,)),
            TensorSpec(name="label", dtype="int64", shape=()),
        ),
    )


def check(
    y: Any = Y, labels: Any = LABELS, precision: str = "fp32", exact: bool = True, reference: Any = None
) -> float:
    """The difference of an answer of batch size 2."""
    expected = {"y": Y, "label": LABELS} if reference is None else reference
    return check_answer({"y": y, "label": labels}, expected, model(precision), 2, 1e-3, exact)


def test_the_difference_is_relative_to_the_largest_value() -> None:
    """Small values are not excused by an absolute tolerance, nor condemned by rounding."""
    assert check() == 0
    assert check(Y + np.float32(0.002)) == pytest.approx(0.0005, rel=1e-3)
    tiny = Y * np.float32(1e-10)
    with pytest.raises(ServerError, match=r"output y .*|Output y"):
        check(tiny * 2, reference={"y": tiny, "label": LABELS})


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        (
            Y + 1,
            LABELS,
            r"Output y .* differs from the source model's by 0.25 .* 0.001 is allowed: 2 against 1",
        ),
        (np.zeros((0, 2), np.float32), LABELS, "Output y .* has 0 bytes, 16 are expected"),
        (Y.reshape(4), LABELS, r"Output y .* has shape \[4\], the source model's has \[2, 2\]"),
        (np.where(Y == 4, np.nan, Y), LABELS, "has 1 values that are NaN or infinite"),
        (Y, LABELS[::-1], r"Output label .* differs .*: \[1, 0\] against \[0, 1\]"),
    ],
)
def test_a_wrong_answer_stops_the_run_with_both_values(y: Any, labels: Any, message: str) -> None:
    """Value, byte length, shape, NaN and labels are each noticed."""
    with pytest.raises(ServerError, match=message):
        check(y, labels)


def test_labels_may_differ_at_reduced_precision() -> None:
    """There a decision on the edge may fall otherwise; the accuracy judges it."""
    assert check(labels=LABELS[::-1], precision="int8", exact=False) == 0


def test_what_came_quantised_and_is_served_as_it_is_answers_the_same_labels() -> None:
    """What its weights are in says nothing of what serving it may lose."""
    with pytest.raises(ServerError, match=r"Output label .* differs"):
        check(labels=LABELS[::-1], precision="int8")


def test_a_model_that_answers_nothing_but_nan_is_refused() -> None:
    """Equal NaN is not a proof of anything."""
    nan = np.full_like(Y, np.nan)
    with pytest.raises(ServerError, match="nothing but NaN"):
        check(nan, reference={"y": nan, "label": LABELS})


def test_outputs_with_other_names_are_compared_in_their_order() -> None:
    """A conversion may rename outputs; their values still decide."""
    assert check(reference={"a": Y, "b": LABELS}) == 0
    with pytest.raises(ServerError, match=r"gives \['y', 'label'\], its reference has \['a'\]"):
        check(reference={"a": Y})


def test_requests_must_fit_the_model() -> None:
    """Name, dtype and shape; all that is wrong at once."""
    check_requests({"x": np.zeros((4, 7, 3), np.float32)}, model())
    with pytest.raises(InputError) as raised:
        check_requests({"x": np.zeros((4, 7, 2), np.float64), "z": np.zeros(4)}, model())
    text = str(raised.value)
    assert "input x is float64, the model takes float32" in text
    assert "input x has shape [7, 2], the model takes [-1, 3]" in text
    assert "the model has no input z" in text
    with pytest.raises(InputError, match="input x is missing"):
        check_requests({}, model())


def test_more_rows_than_samples_go_round() -> None:
    """A batch larger than the sample set repeats it."""
    assert first_rows({"y": Y}, 3)["y"].tolist() == [[1, -2], [3, 4], [1, -2]]


def test_pickled_requests_are_not_loaded(tmp_path: Any) -> None:
    """Nothing is unpickled."""
    np.savez(tmp_path / "bad.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="can't be read"):
        load_samples(str(tmp_path / "bad.npz"))


@pytest.mark.parametrize("cut", [True, False])
def test_damaged_requests_are_named_with_what_to_do(tmp_path: Path, cut: bool) -> None:
    """Half an archive and one with a changed byte are bad input, not a crash."""
    path = tmp_path / "requests.npz"
    np.savez(path, x=Y)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if cut else data.replace(Y.tobytes(), b"\1" * Y.nbytes))
    with pytest.raises(
        InputError, match=r"requests\.npz can't be read: .* Delete .*; the next run makes it again"
    ):
        load_samples(str(path))
