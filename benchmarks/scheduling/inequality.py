"""How unequal the lengths of jobs are, which decides what their order can gain."""

from __future__ import annotations


def gini(lengths: list[float]) -> float:
    """Gini coefficient: mean absolute difference over twice the mean. SJF's gain on a batch is 1 / (1 - Gini).

    With n jobs and one device: FCFS's expected mean JCT is about n m / 2, SJF's is n m (1 - G) / 2, m the mean.
    """
    ordered = sorted(lengths)
    n = len(ordered)
    weighted = sum((2 * i - n + 1) * x for i, x in enumerate(ordered))
    return weighted / (n * sum(ordered))
