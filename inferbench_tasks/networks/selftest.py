"""Does an emulated network do what its row says? Measured through the real thing, against a real echo server."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from inferbench_tasks.networks import pings
from inferbench_tasks.networks.base import shaped_path
from inferbench_tasks.networks.network import Network

#: A figure is met within this share of what was asked for.
TOLERANCE_RATIO = 0.10
#: So many pings know a standard deviation to 6% (at 95%).
PINGS = 600
_BULK_S = 1.0
#: Connections that ping at once, so that a slow network takes no minutes: about one for so many ms of latency.
_MS_PER_CONNECTION = 5.0


def self_test(
    network: Network | None, folder: Path, *, bulk: bool = True, count: int = PINGS
) -> dict[str, Any]:
    """{figures: [{figure, asked, measured, met, note}], emulation, met}; ``None``: the network as it is (``lan``).

    ``round_trip_ms``: the median of pings less that of direct ones. ``jitter_ms``: the standard deviation of the round
    trip (that of both ways together), from the quartiles so that a stall of this machine counts little, less that of
    direct pings in quadrature. ``up/down_mbit_s``: of a transfer of about a second. ``loss_ratio``: of the pings that
    came a retransmission later; met also where the asked share lies within its 99% interval.
    """
    with pings.echo() as port:
        direct = pings.round_trips_ms(port, count)
        if network is None:
            figures = [
                _judge("round_trip_ms", 0.0, statistics.median(direct), note="nothing is emulated", met=True)
            ]
            return {"figures": figures, "emulation": None, "met": True}
        with shaped_path(network, "127.0.0.1", port, folder / "network-selftest.log") as path:
            where = {"host": path["host"]}
            connections = max(1, round(network.latency_ms / _MS_PER_CONNECTION))
            through = pings.round_trips_ms(path["port"], count, connections, **where)
            asked_ms = 2 * network.latency_ms
            middle = statistics.median(through)
            figures = [_judge("round_trip_ms", asked_ms, middle - statistics.median(direct))]
            if network.jitter_ms:
                in_time = [value for value in through if not _late(network, value, middle)]
                spread = math.sqrt(max(0.0, _spread(in_time) ** 2 - _spread(direct) ** 2))
                figures.append(
                    _judge("jitter_ms", network.jitter_ms * math.sqrt(2), spread, note="of the round trip")
                )
            if network.loss_ratio:
                figures.append(_loss(network, through, middle))
            for direction, mbit_s in (("up", network.up_mbit_s), ("down", network.down_mbit_s)):
                if mbit_s and bulk:
                    size = int(mbit_s * 1e6 / 8 * _BULK_S)
                    seconds = pings.transfer_s(path["port"], size, direction, **where) - asked_ms / 1e3
                    figures.append(_judge(f"{direction}_mbit_s", mbit_s, size * 8 / 1e6 / seconds))
    return {"figures": figures, **path["about"], "met": all(figure["met"] for figure in figures)}


def _judge(
    figure: str, target: float, measured: float, *, note: str = "", met: bool | None = None
) -> dict[str, Any]:
    if met is None:
        met = abs(measured - target) <= TOLERANCE_RATIO * target
    off = (measured - target) / target if target else None
    return {
        "figure": figure,
        "asked": target,
        "measured": measured,
        "off_ratio": off,
        "met": met,
        "note": note,
    }


def _spread(values: list[float]) -> float:
    """The standard deviation of the normal distribution that has these quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 1.349


def _loss(network: Network, through_ms: list[float], middle_ms: float) -> dict[str, Any]:
    """Each way loses on its own: a round trip is late if either did."""
    late = sum(_late(network, value, middle_ms) for value in through_ms)
    n = len(through_ms)
    share = late / n
    measured = 1 - math.sqrt(1 - share)
    expected = 1 - (1 - network.loss_ratio) ** 2
    bound = 2.58 * math.sqrt(expected * (1 - expected) / n)
    inside = abs(share - expected) <= bound
    near = abs(measured - network.loss_ratio) <= TOLERANCE_RATIO * network.loss_ratio
    note = f"{late} of {n} pings were late; {expected * n:.0f} ± {bound * n:.0f} are expected (99%)"
    return _judge("loss_ratio", network.loss_ratio, measured, note=note, met=inside or near)


def _late(network: Network, value_ms: float, middle_ms: float) -> bool:
    """Whether a retransmission was in it: at least a round trip more than the others."""
    return network.loss_ratio > 0 and value_ms > middle_ms + 1.5 * network.latency_ms
