"""How much of a reported latency is the client's own doing, and which figures are withheld for it.

A request that left late and an answer that came while the sender's loop was held up carry the client's time. Each
distribution is therefore worked out a second time without it: from the real send, and to the earliest moment at
which the answer may have come. What a percentile loses by that is the most that the client can have made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import ShardUsage, beside
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import Window, taken

_NS_PER_MS = 1e6
#: What piled up while a loop was held up is stamped within so long after it; what takes longer delays a beat again.
_PILE_NS = 5_000_000
_PIECE = 1 << 18
#: The parts of a request's time that hold what it waited; those of the server's own work don't depend on it.
WAITED_IN = ("queue", "transmit", "unattributed", "e2e")


@dataclass(frozen=True)
class ClientShare:
    """``reported_ms`` as recorded and ``without_ms`` without the client's time; at most ``limit_ms`` may be its own.

    ``series``: the distribution in the summary (``e2e_latency_ms``); ``name``: the figure in it (``p99``, ``mean``).
    """

    series: str
    name: str
    reported_ms: float
    without_ms: float
    limit_ms: float

    @property
    def share_ms(self) -> float:
        """What the client made of it, at most."""
        return self.reported_ms - self.without_ms

    @property
    def excessive(self) -> bool:
        """Whether the figure tells more of the client than it may."""
        return self.share_ms > self.limit_ms

    @property
    def reason(self) -> str:
        """Why the figure is withheld."""
        share, limit = beside(self.share_ms, self.limit_ms, 2)
        return (
            f"up to {share} ms of the {self.name} of {self.reported_ms:.2f} ms are the client's own (at "
            f"most {limit} ms): requests left late, or the sender was held up when answers came"
        )


def client_shares(
    window: Window, shards: Sequence[ShardUsage], limits: Thresholds, *, paced: bool
) -> list[ClientShare]:
    """Of the mean and every percentile that is reported; [] where the client was never late and never held up.

    ``paced`` is False where requests wait for their turn by design: what they wait is no lateness then.
    """
    good = window.answered
    intended_ns, sent_ns = taken(window.intended_ns, good), taken(window.sent_ns, good)
    held = Stalls(taken(window.shard, good), shards)
    from_ns = taken(window.left_ns, good) if paced else intended_ns
    shares: list[ClientShare] = []
    for series, start_ns, stamped in (
        ("e2e_latency_ms", intended_ns, taken(window.done_ns, good)),
        ("send_latency_ms", sent_ns, taken(window.done_ns, good)),
        ("first_byte_latency_ms", intended_ns, taken(window.first_byte_ns, good)),
    ):
        there = stamped >= 0
        reported_ns = taken(stamped - start_ns, there)
        own_start_ns = sent_ns if series == "send_latency_ms" else from_ns
        without_ns = taken(held.earliest_ns(sent_ns, stamped) - own_start_ns, there)
        if len(reported_ns) and not np.array_equal(reported_ns, without_ns):
            shares += of_series(series, reported_ns, without_ns, limits)
    return shares


def withheld(shares: Iterable[ClientShare]) -> dict[str, dict[str, str]]:
    """Series -> figure -> why it is withheld; only those that are."""
    reasons: dict[str, dict[str, str]] = {}
    for share in shares:
        if share.excessive:
            reasons.setdefault(share.series, {})[share.name] = share.reason
    return reasons


def withhold(summary: Mapping[str, Any], reasons: Mapping[str, Mapping[str, str]]) -> None:
    """Take the figures that the client made out of a summary: None, without an interval, and with the reason beside."""
    for series, names in reasons.items():
        stats = summary.get(series)
        if not stats:
            continue
        for name in names:
            stats[name] = None
            if stats.get("ci95"):
                stats["ci95"][name] = None
        stats["withheld"] = {**stats.get("withheld", {}), **names}
    if latencies := reasons.get("e2e_latency_ms"):
        _withhold_what_follows(summary, latencies)


def withhold_parts(stages: Mapping[str, Any], names: Iterable[str]) -> None:
    """Take the same figures of the parts that a request waits in out of a breakdown; the server's work stands."""
    for part in WAITED_IN:
        for name in names:
            if (stages.get(part) or {}).get(name) is not None:
                stages[part][name] = None


def _withhold_what_follows(summary: Any, names: Mapping[str, str]) -> None:
    """What is made of these latencies: the breakdown, the goodput, what the first request took beside the others."""
    withhold_parts(summary.get("stages_ms") or {}, names)
    if "mean" in names and summary.get("cold_start"):
        summary["cold_start"]["first_to_steady_ratio"] = None
    bounded = (summary.get("slo") or {}).get("checks") or {}
    limits = [name for name in NAMES.values() if f"{name}_ms" in bounded]
    if limits and limits[-1] in names:
        summary["goodput_rps"] = None


def of_series(
    series: str, reported_ns: NDArray[np.int64], without_ns: NDArray[np.int64], limits: Thresholds
) -> Iterator[ClientShare]:
    """Of the mean and every percentile of one series, reported and without the client's part; both lose their order."""
    quantiles = [quantile for quantile, least in FLOORS.items() if len(reported_ns) >= least]
    before, after = _figures_ms(reported_ns, quantiles), _figures_ms(without_ns, quantiles)
    for name, reported, without in zip(
        ["mean", *(NAMES[quantile] for quantile in quantiles)], before, after, strict=True
    ):
        # A typical request has a tighter bound than a rare one.
        typical = name == NAMES[0.5]
        floor_ms = limits.percentile_share_p50_ms if typical else limits.percentile_share_ms
        ratio = limits.percentile_share_p50_ratio if typical else limits.percentile_share_ratio
        # Beside a server that is faster than the absolute part, that would let the client make most of the figure.
        floor_ms = min(floor_ms, limits.percentile_share_most_ratio * without)
        yield ClientShare(series, name, reported, without, max(floor_ms, ratio * without))


def _figures_ms(values_ns: NDArray[np.int64], quantiles: Sequence[float]) -> list[float]:
    """The mean and the percentiles; the values lose their order, for millions of them are not copied."""
    mean = float(values_ns.mean())
    exact = np.quantile(values_ns, quantiles, method="inverted_cdf", overwrite_input=True)
    return [mean / _NS_PER_MS, *(exact / _NS_PER_MS).tolist()]


class Stalls:
    """When each sender's loop was held up."""

    def __init__(self, shard: NDArray[Any], shards: Sequence[ShardUsage]) -> None:
        self._shard = shard
        self._shards = shards

    def earliest_ns(self, sent_ns: NDArray[np.int64], stamped_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The earliest moment at which what was stamped then may have come: the begin of the stall that hid it.

        Never before the request was sent. Of a sender that has no list of its stalls, the longest one may have hidden
        every answer.
        """
        if all(usage.stalls_ns == () for usage in self._shards):
            return stamped_ns
        earliest = stamped_ns.copy()
        for at in range(
            0, len(earliest), _PIECE
        ):  # piece by piece: millions of answers take no memory for it
            piece = slice(at, at + _PIECE)
            for usage in self._shards:
                mine = self._shard[piece] == usage.shard if len(self._shards) > 1 else slice(None)
                earliest[piece][mine] = _earliest_ns(sent_ns[piece][mine], stamped_ns[piece][mine], usage)
        return earliest


def _earliest_ns(
    sent_ns: NDArray[np.int64], stamped_ns: NDArray[np.int64], usage: ShardUsage
) -> NDArray[np.int64]:
    """The same, of the answers to one sender."""
    if usage.stalls_ns is None:
        return np.maximum(stamped_ns - usage.max_stall_ns, np.minimum(sent_ns, stamped_ns))
    if not usage.stalls_ns:
        return stamped_ns
    begin, end = np.array(usage.stalls_ns, np.int64).T
    last = np.searchsorted(begin, stamped_ns, "right") - 1
    hidden = (last >= 0) & (stamped_ns <= end[last] + _PILE_NS) & (sent_ns < end[last])
    return np.where(hidden, np.maximum(sent_ns, begin[last]), stamped_ns)
