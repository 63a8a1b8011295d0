"""The server's own word on its times beside the client's figures of the same requests; never merged with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.loadgen.summary import distribution
from inferbench_tasks.loadgen.token_records import SERVER_TIMES, STREAMS_WRITTEN
from inferbench_tasks.loadgen.token_window import TokenWindow, places

#: What is read of ``streams.parquet``.
SERVER_STREAMS = pa.schema(
    [STREAMS_WRITTEN.field(name) for name in ("request_id", *(f"server_{name}" for name in SERVER_TIMES))]
)
#: Distributions in ms: by the server's word, and what the client saw beyond it.
SERVER_FIGURES = (
    "server_queue_ms", "server_prompt_ms", "server_tpot_ms", "ttft_beyond_server_ms", "tpot_beyond_server_ms",
)  # fmt: skip
#: A server's word that is longer by more than this than what the client saw is of something else.
IMPOSSIBLE_MS = 1.0
_NS_PER_MS, _US_PER_MS = 1e6, 1e3
_NS_PER_US = 1000


@dataclass(frozen=True)
class ServerSide:
    """Of each record of the window what its server said (``openai_form.ServerTimes``); -1 where it told nothing."""

    tokens: TokenWindow
    queue_us: NDArray[np.int64]
    prompt_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    predicted_us: NDArray[np.int64]
    predicted_tokens: NDArray[np.int64]
    later_tokens: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: TokenWindow, streams: Mapping[str, NDArray[Any]]) -> ServerSide:
        """Put the rows of ``SERVER_STREAMS`` to the records that they are of."""
        ids = tokens.window.request_id
        row = places(ids, np.argsort(ids, kind="stable"), streams["request_id"])
        columns = {}
        for name in SERVER_TIMES:
            column = np.full(len(ids), -1, np.int64)
            column[row[row >= 0]] = streams[f"server_{name}"][row >= 0]
            columns[name] = column
        return cls(tokens, **columns)

    @property
    def told(self) -> NDArray[np.bool_]:
        """Good answers whose time to the first token both sides know; where the queue of some is told, these alone."""
        tokens = self.tokens
        there = (tokens.first_token_ns >= 0) & (tokens.window.sent_ns >= 0)
        told: NDArray[np.bool_] = tokens.window.answered & there & (self.prompt_us >= 0)
        queued = told & (self.queue_us >= 0)
        return queued if queued.any() else told

    @property
    def paced(self) -> NDArray[np.bool_]:
        """Good answers whose time per token both sides know, of the same tokens: as many as usage has."""
        tokens = self.tokens
        same = (self.predicted_tokens == tokens.output_tokens) & (self.later_tokens > 0)
        paced: NDArray[np.bool_] = (
            tokens.window.answered & (self.predicted_us >= 0) & same & ~np.isnan(tokens.tpot_ns)
        )
        return paced

    @property
    def own_ns(self) -> NDArray[np.int64]:
        """Queue, where it is told, and prompt, ns; of those that ``told``."""
        return (self.queue_us.clip(0) + self.prompt_us) * _NS_PER_US

    @property
    def own_tpot_ns(self) -> NDArray[np.float64]:
        """Of those that are ``paced``."""
        return self.predicted_us / np.maximum(self.later_tokens, 1) * _NS_PER_US


def summarise_server(side: ServerSide) -> dict[str, Any]:
    """``SERVER_FIGURES``, ``server_prompt_token_ms`` and ``ttft_parts``; all None where the server tells nothing.

    Only requests with both words count, the client's and the server's, so that a difference is of the same ones:
    ``ttft_beyond_server`` = (c_1 - s) - (queue + prompt time), ``tpot_beyond_server`` = (c_m - c_1) / (N - n_1) -
    predicted time / tokens after the first. A queue that is not told is part of what is beyond.
    """
    tokens, told, paced = side.tokens, side.told, side.paced
    window = tokens.window
    beyond_ns = tokens.first_token_ns - window.sent_ns - side.own_ns
    worked = told & (side.prompt_tokens > 0)

    def spread(values_ns: NDArray[Any]) -> dict[str, Any] | None:
        return (
            distribution(values_ns / _NS_PER_MS, failed_ratio=window.failed_ratio) if len(values_ns) else None
        )

    return {
        "server_queue_ms": spread(side.queue_us[told] * _NS_PER_US) if _queued(side, told) else None,
        "server_prompt_ms": spread(side.prompt_us[told] * _NS_PER_US),
        "server_tpot_ms": spread(side.own_tpot_ns[paced]),
        "ttft_beyond_server_ms": spread(beyond_ns[told]),
        "tpot_beyond_server_ms": spread((tokens.tpot_ns - side.own_tpot_ns)[paced]),
        "server_prompt_token_ms": float(
            side.prompt_us[worked].sum() / side.prompt_tokens[worked].sum() / _US_PER_MS
        )
        if worked.any()
        else None,
        "ttft_parts": _parts(side, told, beyond_ns) if told.any() else None,
    }


def settle_parts(summary: dict[str, Any]) -> None:
    """The parts of a mean stand only with that mean: where it is withheld, for whatever reason, they go, too."""
    means = [summary.get(name) for name in ("ttft_ms", "ttft_from_send_ms", "ttft_beyond_server_ms")]
    if any(stats is None or stats["mean"] is None for stats in means):
        summary["ttft_parts"] = None


def _queued(side: ServerSide, told: NDArray[np.bool_]) -> bool:
    return bool((side.queue_us[told] >= 0).any())


def _parts(side: ServerSide, told: NDArray[np.bool_], beyond_ns: NDArray[np.int64]) -> dict[str, Any]:
    """Means of what the time to the first token consists of, ms; they add up to ``ttft_ms``, of ``requests``.

    ``client_ms``: from the intended moment to the send, less ``connection_ms``: the wait for a connection of which the
    user asked for so few; not there where nobody did. ``server_queue_ms``: None where the server does not tell it;
    it is in ``between_ms`` then, what neither side accounts for: network, the server's reading and writing, its queue.
    ``impossible``: of how many the server's own time is longer by ``IMPOSSIBLE_MS`` than from the send to the token.
    """
    window, first = side.tokens.window, side.tokens.first_token_ns
    waits_ns = window.connection_wait_ns
    return {
        "requests": int(told.sum()),
        "good": int(window.answered.sum()),
        "impossible": int((beyond_ns[told] < -IMPOSSIBLE_MS * _NS_PER_MS).sum()),
        "ttft_ms": _mean_ms(first - window.intended_ns, told),
        "client_ms": _mean_ms(window.left_ns - window.intended_ns, told),
        **({} if waits_ns is None else {"connection_ms": _mean_ms(waits_ns, told)}),
        "server_queue_ms": _mean_ms(side.queue_us * _NS_PER_US, told) if _queued(side, told) else None,
        "server_prompt_ms": _mean_ms(side.prompt_us * _NS_PER_US, told),
        "between_ms": _mean_ms(beyond_ns, told),
    }


def _mean_ms(values_ns: NDArray[np.int64], of: NDArray[np.bool_]) -> float:
    return float(values_ns[of].mean() / _NS_PER_MS)
