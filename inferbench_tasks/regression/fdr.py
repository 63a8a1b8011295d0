"""Many series, one night: the false discovery rate (Benjamini and Hochberg 1995)."""

from __future__ import annotations

from collections.abc import Sequence


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg adjusted p-values, in the given order.

    Calling those at most q discoveries keeps the expected share of false ones among them at or below q,
    for independent or positively dependent series (the figures of one run are that).
    """
    m = len(p_values)
    order = sorted(range(m), key=lambda i: p_values[i])
    found = [1.0] * m
    smallest = 1.0
    for rank in range(m, 0, -1):
        i = order[rank - 1]
        smallest = min(smallest, p_values[i] * m / rank)
        found[i] = smallest
    return found
