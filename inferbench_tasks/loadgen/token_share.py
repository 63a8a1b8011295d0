"""Which times of streamed tokens are withheld: those that the client made, and those that the load's length made.

As with latencies (``client_share``, ``stability``): each distribution is worked out again from the real send, and to
the earliest moment at which a chunk may have come. What a figure loses by that is the most that the client made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.client_share import ClientShare, Stalls, client_shares, of_series, withheld
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.server_side import SERVER_FIGURES, ServerSide
from inferbench_tasks.loadgen.stability import withheld_for
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_summary import stalls_ns
from inferbench_tasks.loadgen.token_window import TokenWindow

_TIMES = (
    "ttft_ms", "ttft_from_send_ms", "ttft_output_ms", "latency_ms", "tpot_ms", "gap_ms", "itl_ms", "stall_ms",
    "user_tokens_per_s", *SERVER_FIGURES,
)  # fmt: skip
#: Who held up what nobody can have.
_NOBODY = ShardUsage(shard=-1, cpu_s=0.0, wall_s=0.0, max_stall_ns=0, stalls_ns=())
#: What is made of the same moments.
_FOLLOW = {
    "tpot_ms": ("user_tokens_per_s",),
    "gap_ms": ("itl_ms",),
    "ttft_ms": ("ttft_output_ms",),
}


def withhold_clients_times(
    summary: dict[str, Any],
    tokens: TokenWindow,
    usages: Sequence[ShardUsage],
    limits: Thresholds,
    *,
    paced: bool,
    server: ServerSide | None = None,
) -> None:
    """Take out the times of which the client made too much; ``server``: whose word some of them are beyond."""
    shares = [*_of_requests(tokens, usages, limits, paced=paced), *_between(tokens, usages, limits)]
    if server is not None:
        shares += _beyond(server, usages, limits)
    reasons = withheld(shares)
    for series, names in reasons.items():
        for figure in (series, *_FOLLOW.get(series, ())):
            _withhold(summary, figure, names)


def withhold_all_times(summary: dict[str, Any], reason: str) -> None:
    """Take out every time, and what is good by it, of a load whose times depend on how long it lasted."""
    names = next(iter(withheld_for(reason).values()))
    for figure in _TIMES:
        _withhold(summary, figure, names)
    summary["reasons"] |= dict.fromkeys(("ttft_ms", "good_ratio"), next(iter(names.values())))
    summary |= dict.fromkeys(("good", "good_ratio", "goodput_rps", "good_tokens_per_s", "good_decision"))
    summary |= dict.fromkeys(("server_prompt_token_ms", "ttft_parts"))
    summary["kept_ratio"] = dict.fromkeys(summary["kept_ratio"])


def _withhold(summary: dict[str, Any], figure: str, names: dict[str, str]) -> None:
    stats = summary.get(figure)
    if not stats:
        return
    if figure == "gap_ms":
        summary["gaps_by_length"] = {"edges_ms": [], "counts": []}
    for name in names:
        stats[name] = None
        if stats.get("ci95"):
            stats["ci95"][name] = None
    stats["withheld"] = {**names, **stats.get("withheld", {})}


def _of_requests(
    tokens: TokenWindow, usages: Sequence[ShardUsage], limits: Thresholds, *, paced: bool
) -> Iterable[ClientShare]:
    """Of the first and the last token, from the intended moment and from the send."""
    first, last = (_of_records(tokens, chunks) for chunks in tokens.ends())
    as_first = replace(
        tokens.window, shard=first, first_byte_ns=tokens.first_token_ns, done_ns=tokens.first_token_ns
    )
    as_last = replace(
        tokens.window, shard=last, first_byte_ns=tokens.last_token_ns, done_ns=tokens.last_token_ns
    )
    named = {
        "first_byte_latency_ms": ("ttft_ms", as_first),
        "send_latency_ms": ("ttft_from_send_ms", as_first),
        "e2e_latency_ms": ("latency_ms", as_last),
    }
    for series, (ours, window) in named.items():
        for share in client_shares(window, [*usages, _NOBODY], limits, paced=paced):
            if share.series == series:
                yield replace(share, series=ours)


def _of_records(tokens: TokenWindow, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each record, the sender that may have stamped this chunk of it late."""
    return tokens.held_up(chunks) if len(tokens.chunk_row) else tokens.window.shard


def _between(tokens: TokenWindow, usages: Sequence[ShardUsage], limits: Thresholds) -> Iterable[ClientShare]:
    """Of what lies between chunks: it was stamped too long where the later chunk waited for the sender."""
    answered = tokens.window.answered
    gaps_ns, row = tokens.gaps(answered)
    later = tokens.followers(answered)
    came_ns = tokens.chunk_ns[later]
    senders = [*usages, _NOBODY]
    held = Stalls(tokens.held_up(later), senders)
    without_ns = gaps_ns - (came_ns - held.earliest_ns(came_ns - gaps_ns, came_ns))
    yield from _changed("gap_ms", gaps_ns, without_ns, limits)
    yield from _changed("stall_ms", stalls_ns(gaps_ns, row), stalls_ns(without_ns, row), limits)
    tpot_ns = tokens.tpot_ns
    known = answered & ~np.isnan(tpot_ns)
    last_ns, first_ns = tokens.last_token_ns[known], tokens.first_token_ns[known]
    held = Stalls(_of_records(tokens, tokens.ends()[1])[known], senders)
    count = (tokens.output_tokens - tokens.first_chunk_tokens)[known]
    yield from _changed(
        "tpot_ms", tpot_ns[known], (held.earliest_ns(first_ns, last_ns) - first_ns) / count, limits
    )


def _beyond(side: ServerSide, usages: Sequence[ShardUsage], limits: Thresholds) -> Iterable[ClientShare]:
    """Of what the client saw beyond the server's word: a difference is small, and a late stamp is all in it."""
    tokens, told, paced = side.tokens, side.told, side.paced
    senders = [*usages, _NOBODY]
    first, last = (_of_records(tokens, chunks) for chunks in tokens.ends())
    sent_ns, first_ns, last_ns = tokens.window.sent_ns, tokens.first_token_ns, tokens.last_token_ns
    came_ns = Stalls(first[told], senders).earliest_ns(sent_ns[told], first_ns[told])
    since_ns = sent_ns[told] + side.own_ns[told]
    count = (tokens.output_tokens - tokens.first_chunk_tokens)[paced]
    ended_ns = Stalls(last[paced], senders).earliest_ns(first_ns[paced], last_ns[paced])
    own_ns = side.own_tpot_ns[paced]
    for share in (
        *_changed("ttft_beyond_server_ms", first_ns[told] - since_ns, came_ns - since_ns, limits),
        *_changed(
            "tpot_beyond_server_ms",
            tokens.tpot_ns[paced] - own_ns,
            (ended_ns - first_ns[paced]) / np.maximum(count, 1) - own_ns,
            limits,
        ),
    ):
        yield replace(share, limit_ms=abs(share.limit_ms))  # a difference may be below 0


def _changed(
    series: str, reported_ns: NDArray[Any], without_ns: NDArray[Any], limits: Thresholds
) -> Iterable[ClientShare]:
    if len(reported_ns) and not np.array_equal(reported_ns, without_ns):
        yield from of_series(series, reported_ns.copy(), without_ns.copy(), limits)
