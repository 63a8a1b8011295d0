"""Of which batch a trace is, in words: beside figures of a load of another one it is said."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.tracing.batches import batch_in_words
from tests.unit.perfdb.builders import result

OTHER = "times of the trace and figures of the load are of different batches."


@pytest.mark.parametrize(
    ("trace", "load", "words"),
    [
        ({"batch_size": 1}, {"batch_size": 1}, ""),
        ({"batch_size": 8}, {"batch_size": 8}, "Each traced request has 8 samples."),
        (
            {"batch_size": 8},
            {"batch_size": 1},
            f"Each traced request has 8 samples, each of the load's 1: {OTHER}",
        ),
        ({}, {"batch_size": 8}, f"Each traced request has 1 sample, each of the load's 8: {OTHER}"),
        (
            {"batch_size": 8},
            {"batch_size": 1, "arrivals": {"kind": "none"}},
            "Each traced request has 8 samples.",
        ),
        ({"batch_size": 1}, {"batch_size": 1, "arrivals": {"kind": "none"}}, ""),
        ({"batch_size": 8, "problem": "no server"}, {"batch_size": 1}, ""),
        (None, {"batch_size": 8}, ""),
    ],
)
def test_another_batch_than_the_loads_is_said(
    trace: dict[str, Any] | None, load: dict[str, Any], words: str
) -> None:
    """Of 8 samples beside a load of one, and of one, as it was before, beside a load of 8; without a load the batch
    alone; of runs without a trace nothing."""
    made = result(extensions={} if trace is None else {"trace": trace})
    made = made.model_copy(update={"load": made.load.model_copy(update=load)})
    assert batch_in_words(made) == words
