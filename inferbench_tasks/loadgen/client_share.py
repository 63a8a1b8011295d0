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

from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import Window

_NS_PER_MS = 1e6
#: What piled up while a loop was held up is stamped within so long after it; what takes longer delays a beat again.
_PILE_NS = 5_000_000


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
        return (
            f"up to {self.share_ms:.2f} ms of the {self.name} of {self.reported_ms:.2f} ms are the client's own (at "
            f"most {self.limit_ms:.2f} ms): requests left late, or the sender was held up when answers came"
        )


def client_shares(
    window: Window, shards: Sequence[ShardUsage], limits: Thresholds, *, paced: bool
) -> list[ClientShare]:
    """Of the mean and every percentile that is reported; [] where the client was never late and never held up.

    ``paced`` is False where requests wait for their turn by design: what they wait is no lateness then.
    """
    good = window.answered
    intended_ns, sent_ns = window.intended_ns[good], window.sent_ns[good]
    held = _Stalls(window.shard[good], shards)
    from_ns = sent_ns if paced else intended_ns
    shares: list[ClientShare] = []
    for series, start_ns, stamped in (
        ("e2e_latency_ms", intended_ns, window.done_ns[good]),
        ("send_latency_ms", sent_ns, window.done_ns[good]),
        ("first_byte_latency_ms", intended_ns, window.first_byte_ns[good]),
    ):
        there = stamped >= 0
        reported_ns = (stamped - start_ns)[there]
        own_start_ns = sent_ns if series == "send_latency_ms" else from_ns
        without_ns = (held.earliest_ns(sent_ns, stamped) - own_start_ns)[there]
        if len(reported_ns) and not np.array_equal(reported_ns, without_ns):
            shares += _of_series(series, reported_ns / _NS_PER_MS, without_ns / _NS_PER_MS, limits)
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


def _of_series(
    series: str, reported_ms: NDArray[Any], without_ms: NDArray[Any], limits: Thresholds
) -> Iterator[ClientShare]:
    quantiles = [quantile for quantile, least in FLOORS.items() if len(reported_ms) >= least]
    before = [float(reported_ms.mean()), *np.quantile(reported_ms, quantiles, method="inverted_cdf").tolist()]
    after = [float(without_ms.mean()), *np.quantile(without_ms, quantiles, method="inverted_cdf").tolist()]
    for name, reported, without in zip(
        ["mean", *(NAMES[quantile] for quantile in quantiles)], before, after, strict=True
    ):
        # A typical request has a tighter bound than a rare one.
        typical = name == NAMES[0.5]
        floor_ms = limits.percentile_share_p50_ms if typical else limits.percentile_share_ms
        ratio = limits.percentile_share_p50_ratio if typical else limits.percentile_share_ratio
        yield ClientShare(series, name, reported, without, max(floor_ms, ratio * without))


class _Stalls:
    """When each sender's loop was held up."""

    def __init__(self, shard: NDArray[Any], shards: Sequence[ShardUsage]) -> None:
        self._shard = shard
        self._shards = shards

    def earliest_ns(self, sent_ns: NDArray[np.int64], stamped_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The earliest moment at which what was stamped then may have come: the begin of the stall that hid it.

        Never before the request was sent. Of a sender that has no list of its stalls, the longest one may have hidden
        every answer.
        """
        earliest = stamped_ns.copy()
        for usage in self._shards:
            mine = np.flatnonzero(self._shard == usage.shard) if len(self._shards) > 1 else slice(None)
            stamped, sent = stamped_ns[mine], sent_ns[mine]
            if usage.stalls_ns is None:
                earliest[mine] = np.maximum(stamped - usage.max_stall_ns, np.minimum(sent, stamped))
            elif usage.stalls_ns:
                begin, end = np.array(usage.stalls_ns, np.int64).T
                last = np.searchsorted(begin, stamped, "right") - 1
                hidden = (last >= 0) & (stamped <= end[last] + _PILE_NS) & (sent < end[last])
                earliest[mine] = np.where(hidden, np.maximum(sent, begin[last]), stamped)
        return earliest
