"""What no result of a brick may be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.unit.bricks.builders import result


@pytest.mark.parametrize("times", [(1.0,), (0.0, 1.0), (1.0, float("nan")), (1.0, float("inf"))])
def test_no_result_has_times_that_are_none(times: tuple[float, ...]) -> None:
    """One round alone, nothing, NaN, infinity."""
    with pytest.raises(ValidationError, match="at least two times above 0"):
        result("ab", *times)
