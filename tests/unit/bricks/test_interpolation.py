"""Bricks between two batch sizes, against calculations by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.bricks.interpolation import bounds_ns, interpolated
from tests.unit.bricks.builders import result


def test_a_brick_lies_on_the_line_between_its_two_times() -> None:
    """1 at one sample, 8 at eight: 4 at four, in each round and state; of three and two rounds two are left."""
    one = interpolated(result("a", 1, 1.5, 9), result("b", 8, 8.5), (1, 8), 4, "x")
    assert one.rounds_ns["warm"] == pytest.approx((4, 4.5))
    assert one.rounds_ns["streamed"] == pytest.approx((8, 9))
    assert (one.identity, one.session, one.raw_ns) == ("x", "interpolated", {})


@pytest.mark.parametrize("batch", [0, 1, 8, 16])
def test_nothing_is_told_beyond_the_two_sizes(batch: int) -> None:
    """Nor at them: there it is measured."""
    with pytest.raises(ValueError, match="not between"):
        interpolated(result("a", 1, 1), result("b", 8, 8), (1, 8), batch, "x")


def test_other_layers_are_no_brick_of_the_same_line() -> None:
    """A convolution at one size and a product at the other."""
    with pytest.raises(ValueError, match="not the same layers"):
        interpolated(result("a", 1, 1), result("b", 8, 8, operators=("Gemm",)), (1, 8), 4, "x")


def test_what_the_two_times_allow() -> None:
    """3 and 10: at four samples at most 10, at least 10/8 for each; a line through 0 leaves nothing open."""
    assert bounds_ns(3, 10, (1, 8), 4) == (5, 10)
    assert bounds_ns(1, 8, (1, 8), 4) == (4, 4)
    assert bounds_ns(1, 16, (1, 8), 4) == (4, 8)  # a sample takes longer in the larger batch


@given(
    st.floats(0.001, 1e9), st.floats(0.001, 1e9), st.integers(1, 50), st.integers(2, 50), st.integers(1, 49)
)
def test_the_line_is_always_among_what_is_allowed(
    lower: float, upper: float, low: int, more: int, step: int
) -> None:
    """Whatever the two times are."""
    sizes, batch = (low, low + more), low + min(step, more - 1)
    least, most = bounds_ns(lower, upper, sizes, batch)
    [line, _] = interpolated(
        result("a", lower, lower), result("b", upper, upper), sizes, batch, "x"
    ).rounds_ns["warm"]
    assert least * (1 - 1e-9) <= line <= most * (1 + 1e-9)
