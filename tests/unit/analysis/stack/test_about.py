"""What tells a traced run from another, by made-up results."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.stack.about import about_of
from tests.unit.perfdb.builders import result


@pytest.mark.parametrize(
    ("trace", "size"),
    [
        ({"batch_size": 1}, 1),
        ({"batch_size": 8}, 8),
        ({}, 1),  # of before it was kept
        ({"one_in": 20}, 4),
        ({"one_in": 20, "batch_size": 4}, 4),
    ],
)
def test_the_batch_is_that_of_what_was_traced(trace: dict[str, Any], size: int) -> None:
    """Requests that are asked one by one have one sample, or the model's own batch, and not the load's four; requests
    of a share of the load have the load's."""
    made = result(extensions={"trace": trace})
    assert made.load.batch_size == 4
    assert about_of(made)["batch_size"] == size
