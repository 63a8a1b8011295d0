"""A brick at a batch size between two that it was measured at: on the straight line between its two times.

A layer's time is about a constant (its call, its weights) and a part for each sample, which is such a line.
"""

from __future__ import annotations

from inferbench_tasks.bricks.results import Result


def interpolated(lower: Result, upper: Result, sizes: tuple[int, int], batch: int, identity: str) -> Result:
    """The brick at ``batch`` samples, which is between the two ``sizes``; in as many rounds as both were timed in.

    ``lower``, ``upper``: the same layers at the sizes. ValueError for a batch that is not between: nothing is told of
    what lies beyond.
    """
    low, high = sizes
    if not low < batch < high:
        raise ValueError(f"{batch} is not between the batch sizes {low} and {high}")
    if lower.operators != upper.operators:
        raise ValueError(
            f"{lower.operators} at {low} and {upper.operators} at {high} are not the same layers"
        )
    share = (batch - low) / (high - low)
    rounds_ns = {
        state: tuple(
            one + share * (other - one)
            for one, other in zip(lower.rounds_ns[state], upper.rounds_ns[state], strict=False)
        )
        for state in lower.rounds_ns.keys() & upper.rounds_ns.keys()
    }
    return Result(
        identity=identity, key=identity, operators=lower.operators, setting=lower.setting, session="interpolated",
        method=lower.method, rounds_ns=rounds_ns, raw_ns={}, measured_at=min(lower.measured_at, upper.measured_at),
        from_hosts=tuple(sorted({*lower.places, *upper.places})),
    )  # fmt: skip


def bounds_ns(lower_ns: float, upper_ns: float, sizes: tuple[int, int], batch: int) -> tuple[float, float]:
    """The least and the largest time at ``batch`` if more samples never take less time, nor more for each of them.

    Where a sample takes longer in the larger batch (its tensors have left a cache) the two ends of the second change
    places. The straight line is always between them.
    """
    low, high = sizes
    ends = sorted((lower_ns * batch / low, upper_ns * batch / high))
    least, most = sorted((lower_ns, upper_ns))
    return max(least, ends[0]), min(most, ends[1])
