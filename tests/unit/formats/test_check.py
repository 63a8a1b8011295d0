"""A converted model whose answers differ is refused, with both values; the comparison is relative."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.errors import ConversionError
from inferbench_tasks.formats.check import compare, require_within


def one(values: object, dtype: str = "float32") -> dict[str, Array]:
    return {"y": np.array(values, dtype=dtype)}


def test_equal_answers_differ_by_nothing() -> None:
    """Equality is 0."""
    assert compare(one([[1, 2]]), one([[1, 2]])).ratio == 0


def test_the_difference_is_relative() -> None:
    """Outputs of 1e-10 that are 10 % off are 10 % off: an absolute bound would let them pass."""
    found = compare(one([[1.1e-10, 0]]), one([[1e-10, 0]]))
    assert found.ratio == pytest.approx(0.1, rel=1e-5)


def test_beyond_the_tolerance_both_values_are_told() -> None:
    """The message has where, what was answered, and what the source answers."""
    found = compare(one([[1.0, 2.5]]), one([[1.0, 2.0]]))
    with pytest.raises(ConversionError, match=r"output y at \[0, 1\].*0\.25.*converted 2\.5, source 2"):
        require_within(found, 0.1, "m")
    require_within(found, 0.3, "m")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_is_refused_at_any_tolerance(bad: float) -> None:
    """NaN compares false with everything; that must not mean equal."""
    found = compare(one([[1.0, bad]]), one([[1.0, 2.0]]))
    with pytest.raises(ConversionError, match="NaN or infinite"):
        require_within(found, 1.0, "m")


def test_shared_infinities_are_equal() -> None:
    """A masked score that is -inf in both is the same answer."""
    assert compare(one([[-np.inf, 1.0]]), one([[-np.inf, 1.0]])).ratio == 0


def test_another_shape_is_refused() -> None:
    """A batch axis that became constant shows as another shape."""
    with pytest.raises(ConversionError, match=r"shape \[1, 2\]"):
        require_within(compare(one([[1, 2]]), one([[1, 2], [3, 4]])), 1.0, "m")


def test_a_source_of_zeros_has_no_scale() -> None:
    """Then every difference is a whole one."""
    assert compare(one([[1e-6]]), one([[0.0]])).ratio == 1.0


def test_integers_must_be_equal_at_full_precision() -> None:
    """A class id is right or wrong."""
    wrong, right = one([3], "int64"), one([4], "int64")
    assert compare(wrong, right).ratio == 1.0
    assert compare(wrong, right, exact_integers=False).ratio == 0.0
