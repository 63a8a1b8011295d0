"""When people are told that a host's token ends."""

from __future__ import annotations

import pytest

from inferbench_tasks.cluster.token_end import DAY_S, warning


@pytest.mark.parametrize(
    ("left_s", "when"),
    [
        (6.9 * DAY_S, "ends in 7 days"), (2 * DAY_S, "ends in 2 days"), (1.2 * DAY_S, "ends in 29 hours"),
        (2 * 3600, "ends in 2 hours"), (60, "ends now"), (0, "has ended"), (-9 * DAY_S, "has ended"),
    ],
)  # fmt: skip
def test_in_its_last_week_it_is_said_when_it_ends_and_what_to_do(left_s: float, when: str) -> None:
    """Also once it has ended."""
    said = warning(left_s)
    assert f"joined {when}," in said and "inferbench tokens create" in said


def test_before_that_nothing_is_said() -> None:
    """A token lasts 90 days unless another time was said."""
    assert warning(7 * DAY_S) == warning(90 * DAY_S) == ""
