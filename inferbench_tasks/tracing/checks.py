"""What a trace says of itself: whether its layers can be the parts of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inferbench_tasks.tracing.layers import LayerTimes
from inferbench_tasks.tracing.spans import Span

#: Between these shares of a run its layers are said to add up to it.
ADDS_UP = (0.95, 1.05)


def checks(spans: Iterable[Span], layers: LayerTimes | None, beyond: int) -> dict[str, Any]:
    """``adds_up``: whether the layers' sum is within ``ADDS_UP`` of the runs (None without layers); how many spans end
    before they begin (``negative``), and how many reach beyond their parents (``beyond_parents``, see ``assemble``)."""
    return {
        "adds_up": None if layers is None else ADDS_UP[0] <= layers.explained_ratio <= ADDS_UP[1],
        "negative": sum(span.duration_ns < 0 for span in spans),
        "beyond_parents": beyond,
    }
