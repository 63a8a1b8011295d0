"""A first axis that is no batch axis is found with any number of samples, by name."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.rows import require_rows

RNG = np.random.default_rng(0)
SAMPLES = {count: {"x": RNG.normal(size=(count, 4)).astype(np.float32)} for count in (1, 2, 7, 16)}


def independent(arrays: Arrays) -> Arrays:
    return {"y": arrays["x"] * 2}


def running_sum(arrays: Arrays) -> Arrays:
    return {"y": np.cumsum(arrays["x"], axis=0)}


def without_axis(arrays: Arrays) -> Arrays:
    return {"y": arrays["x"].sum(axis=0)}


def squeezed(arrays: Arrays) -> Arrays:
    return {"y": np.squeeze(arrays["x"])}


def drawn(arrays: Arrays) -> Arrays:
    return {"y": RNG.normal(size=arrays["x"].shape)}


@pytest.mark.parametrize("count", SAMPLES)
def test_rows_that_are_answered_by_themselves_pass(count: int) -> None:
    """One sample is enough: it is asked seven times at once."""
    require_rows(independent, SAMPLES[count], 1e-3)


@pytest.mark.parametrize("count", SAMPLES)
@pytest.mark.parametrize(
    ("model", "says"),
    [
        (running_sum, "rows influence each other"),
        (without_axis, r"shape \[4\] for 7 samples"),
        (squeezed, r"by itself: output y has shape \[4\], the source's \[1, 4\]"),
        (drawn, "differently each time"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_batch_axis_is_refused(model: object, says: str, count: int) -> None:
    """With one sample, and with fewer than are asked of the source at once (16) too."""
    with pytest.raises(InputError, match=says):
        require_rows(model, SAMPLES[count], 1e-3)  # type: ignore[arg-type]


def test_scales_of_a_batch_are_allowed_by_the_tolerance() -> None:
    """What a submission allows itself is not refused."""

    def scaled(arrays: Arrays) -> Arrays:
        scale = np.abs(arrays["x"]).max() / 127
        return {"y": np.round(arrays["x"] / scale) * scale}

    with pytest.raises(InputError, match="tolerance_ratio"):
        require_rows(scaled, SAMPLES[16], 1e-5)
    require_rows(scaled, SAMPLES[16], 0.05)
