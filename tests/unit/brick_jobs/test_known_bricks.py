"""What is shown of a brick's work."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.counting import COUNT
from inferbench_tasks.brick_jobs.known_bricks import flops_of


@pytest.mark.parametrize(
    ("operators", "count", "shown"),
    [
        # 100 steps of 4 x 256 x (128 + 256) multiply-adds are 78.6 MFLOP; what is counted are its 25,600 outputs.
        (["LSTM"], COUNT, None),
        (["Conv", "com.microsoft.Attention"], COUNT, None),
        (["Einsum"], COUNT, None),
        (["If"], 1, None),
        (["Conv", "Relu"], 1, 25_600.0),
        (["ConvTranspose"], 1, None),  # by its outputs, as an earlier version counted
        (["ConvTranspose"], COUNT, 25_600.0),
        (["Conv", "MatMul"], 1, None),  # with a constant first it was none
        (["com.microsoft.FusedMatMul"], 1, None),
        (["Gemm"], COUNT, 25_600.0),
    ],
)
def test_flop_that_were_not_counted_are_not_shown(
    operators: list[str], count: int, shown: float | None
) -> None:
    """Nobody is told the outputs of an LSTM as its arithmetic."""
    kept = {"flops": 25_600.0} | ({"count": count} if count > 1 else {})
    assert flops_of(operators, kept) == shown
    assert flops_of(operators, {}) is None
