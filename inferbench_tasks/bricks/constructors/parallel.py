"""Bricks that do not need one another at the same time: the critical path (DLBricks, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence


def construct(times: Sequence[float], needs: Sequence[Sequence[int]]) -> float:
    """The longest way through the bricks; each takes from bricks before it (``needs``: their positions)."""
    ends: list[float] = []
    for time, before in zip(times, needs, strict=True):
        ends.append(time + max((ends[index] for index in before), default=0.0))
    return max(ends, default=0.0)
