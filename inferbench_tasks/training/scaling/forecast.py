"""What more ranks would bring: a prediction, between two ways in which the exchange of gradients may grow.

A ring all-reduce of *n* ranks sends 2 (n - 1) / n of the gradients over each link, in 2 (n - 1) messages (Patarasuk and
Yuan, 2009): where the link's bandwidth limits it, it grows with (n - 1) / n, where the messages' latency does, with
n - 1. The wait for the last rank stays as it is, or grows as the greatest of *n* normal deviates. Computing and loading
stay as they are in weak scaling, and go with the batch, over what a step always takes, in strong scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.training.scaling.curve import Curve, Point
from inferbench_tasks.training.scaling.parts import Parts

RANKS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Forecast:
    """Bounds of one number of ranks: ``speedup`` over the least measured number, and its efficiency."""

    ranks: int
    speedup: tuple[float, float]
    efficiency: tuple[float, float]


def forecast(curve: Curve, ranks: Sequence[int] = RANKS) -> tuple[list[Forecast], str | None]:
    """For numbers of ranks beyond those measured; why there is none, or none of some of the numbers."""
    base, *others = curve.points
    if base.parts is None or any(point.parts is None for point in others):
        return [], "the raw steps of a run are missing, or its kernel told no waits for a core"
    if crowded := [
        point.ranks for point in curve.points if point.cores and point.ranks * point.threads > point.cores
    ]:
        names = ", ".join(map(str, crowded))
        return (
            [],
            f"{names} ranks had fewer cores than threads: they say nothing of ranks with cores of their own",
        )
    if curve.shares_gpus:
        return [], "its ranks share their GPUs: they say nothing of ranks with GPUs of their own"
    several = [point for point in curve.points if point.ranks > 1]
    last = several[-1]
    if last.speedup_ci95 is None:
        return [], f"the speed-up of {last.ranks} ranks has no interval"
    # Of the last point's rate, which all that follows hangs on, and of the first one's.
    least, most = (bound / last.speedup for bound in last.speedup_ci95)
    batch = base.batch_size * base.ranks
    # Efficiency is by epochs without instruments, parts are of those with them.
    anchor = last.efficiency * last.step_ms / last.ideal_step_ms
    found = []
    for count in ranks:
        if count <= last.ranks or (curve.kind == "strong" and batch % count):
            continue
        share = base.ranks / count if curve.kind == "strong" else 1.0
        alone_ms = _alone_ms(curve, share)
        if alone_ms is None:
            return [], "strong scaling below the smallest batch needs two runs whose steps shrink with it"
        exchange_ms = (
            float(
                np.mean([_parts(point).exchange_ms * _sent(count) / _sent(point.ranks) for point in several])
            ),
            float(
                np.mean([_parts(point).exchange_ms * (count - 1) / (point.ranks - 1) for point in several])
            ),
        )
        grown = [_parts(point).imbalance_ms * greatest(count) / greatest(point.ranks) for point in several]
        imbalance_ms = min(_parts(point).imbalance_ms for point in several), max(grown)
        ideal_ms = base.step_ms * share * anchor
        steps_ms = [alone_ms + exchange_ms[at] + imbalance_ms[at] for at in (0, 1)]
        high, low = ideal_ms / steps_ms[0] * most, ideal_ms / steps_ms[1] * least
        speedup = low * count / base.ranks, high * count / base.ranks
        found.append(Forecast(count, speedup, (low, high)))
    if curve.kind == "weak":
        return found, None
    return found, _not_shared(batch, [count for count in ranks if count > last.ranks])


def _not_shared(batch: int, ranks: Sequence[int]) -> str | None:
    """Why some numbers of ranks can't share a batch: each has as many samples of it, whole ones. None where all can."""
    reasons = []
    if uneven := [str(count) for count in ranks if count < batch and batch % count]:
        reasons.append(f"a batch of {batch} can't be divided evenly among {', '.join(uneven)} ranks")
    if max(ranks, default=0) > batch:
        reasons.append(f"a batch of {batch} has no sample for each of more than {batch} ranks")
    return "; ".join(reasons) or None


def _parts(point: Point) -> Parts:
    assert point.parts is not None
    return point.parts


def _sent(ranks: int) -> float:
    """What of the gradients each link carries in a ring."""
    return 2 * (ranks - 1) / ranks


def greatest(count: int) -> float:
    """The mean of the greatest of so many standard normal deviates (Harter, 1961)."""
    from scipy import integrate, stats

    value, _ = integrate.quad(
        lambda x: x * count * stats.norm.pdf(x) * stats.norm.cdf(x) ** (count - 1), -9, 9
    )
    return float(value)


def _alone_ms(curve: Curve, share: float) -> float | None:
    """What a step with that share of the first point's batch takes beside exchange and waiting for ranks.

    Waits for a core are in it: a rank has them behind its own threads that exchange.
    """
    times = [
        (
            point.ranks,
            point.batch_size,
            point.parts.computing_ms + point.parts.loading_ms + point.parts.cores_ms,
        )
        for point in curve.points
        if point.parts
    ]
    if curve.kind == "weak":
        return float(np.mean([time for ranks, _, time in times if ranks > 1]))
    slope, fixed = np.polyfit([size for _, size, _ in times], [time for _, _, time in times], 1)
    if slope <= 0:
        return None
    return float(max(0.0, fixed) + slope * curve.points[0].batch_size * share)
