"""The measured window as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.loadgen.window import taken


@pytest.mark.parametrize(
    ("mask", "copied"), [("0110", False), ("1111", False), ("0000", False), ("1011", True), ("", False)]
)
def test_what_follows_each_other_is_taken_without_a_copy(mask: str, copied: bool) -> None:
    """``taken`` gives what the mask selects, and copies only where there are holes in it."""
    values = np.arange(len(mask))
    bits = np.array([bit == "1" for bit in mask], np.bool_)
    part = taken(values, bits)
    assert np.array_equal(part, values[bits])
    assert bool(len(part)) <= (np.shares_memory(part, values) is not copied)
