"""In which state of the caches the times of a model's bricks are added up.

Warm sums fall short of large models, whose weights are in no core's cache when a layer begins; streamed ones overshoot
small models, whose weights are, as is the caller's own code. So other models of about the same size decide: the state
whose sums were off them by less, in the median. Fewer than three say nothing, and the warm times are taken.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from inferbench_tasks.bricks.measure.method import STATES
from inferbench_tasks.bricks.prediction import FEWEST_CALIBRATING

#: Models whose warm sums are no more than so many times apart are of about one size.
SIZE_RATIO = 10.0


def of_one_size(one_ns: float, other_ns: float) -> bool:
    """By their warm sums."""
    return 1 / SIZE_RATIO <= one_ns / other_ns <= SIZE_RATIO


def nearest_state(ns: float, others: Iterable[tuple[float, Mapping[str, float]]]) -> str:
    """Of a model whose warm sum is ``ns``. ``others``: the warm sum of each, and by state the logarithm of its measured
    time over its sum."""
    near = [logs for sum_ns, logs in others if of_one_size(sum_ns, ns)]
    if len(near) < FEWEST_CALIBRATING:
        return STATES[0]
    return min(STATES, key=lambda state: statistics.median(abs(logs[state]) for logs in near))
