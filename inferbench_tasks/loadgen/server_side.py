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


def summarise_server(side: ServerSide) -> dict[str, Any]:
    """``SERVER_FIGURES``, ``server_prompt_token_ms`` and ``ttft_parts``; all None where the server tells nothing.

    Only requests with both words count, the client's and the server's, so that a difference is of the same ones:
    ``ttft_beyond_server`` = (c_1 - a) - (queue + prompt time), ``tpot_beyond_server`` = (c_m - c_1) / (N - n_1) -
    predicted time / tokens after the first. A queue that is not told is part of what is beyond.
    """
    window, tokens = side.tokens.window, side.tokens
    first = tokens.first_token_ns
    told = window.answered & (side.prompt_us >= 0) & (first >= 0) & (window.sent_ns >= 0)
    queued = bool(told.any()) and bool((side.queue_us[told] >= 0).all())
    queue_us = np.where(told & queued, side.queue_us, 0)
    own_ns = (queue_us + side.prompt_us) * _NS_PER_US
    beyond_ns = first - window.intended_ns - own_ns
    paced = window.answered & (side.predicted_us >= 0) & (side.later_tokens > 0)
    tpot_ms = side.predicted_us[paced] / side.later_tokens[paced] / _US_PER_MS
    client_ms = tokens.tpot_ns[paced] / _NS_PER_MS
    both = ~np.isnan(client_ms)
    worked = told & (side.prompt_tokens > 0)

    def spread(values_ms: NDArray[Any]) -> dict[str, Any] | None:
        return distribution(values_ms, failed_ratio=window.failed_ratio) if len(values_ms) else None

    return {
        "server_queue_ms": spread(queue_us[told] / _US_PER_MS) if queued else None,
        "server_prompt_ms": spread(side.prompt_us[told] / _US_PER_MS),
        "server_tpot_ms": spread(tpot_ms),
        "ttft_beyond_server_ms": spread(beyond_ns[told] / _NS_PER_MS),
        "tpot_beyond_server_ms": spread((client_ms - tpot_ms)[both]),
        "server_prompt_token_ms": float(
            side.prompt_us[worked].sum() / side.prompt_tokens[worked].sum() / _US_PER_MS
        )
        if worked.any()
        else None,
        "ttft_parts": _parts(side, told, queue_us, queued=queued),
    }


def _parts(
    side: ServerSide, told: NDArray[np.bool_], queue_us: NDArray[np.int64], *, queued: bool
) -> dict[str, Any] | None:
    """Means of what the time to the first token consists of, ms; they add up to ``ttft_ms``, of ``requests``.

    ``client_ms``: from the intended moment to the send. ``server_queue_ms``: None where the server does not tell it;
    it is in ``between_ms`` then, what neither side accounts for: network, the server's reading and writing, its queue.
    """
    if not told.any():
        return None
    window, first = side.tokens.window, side.tokens.first_token_ns
    own_ns = (queue_us + side.prompt_us) * _NS_PER_US
    return {
        "requests": int(told.sum()),
        "told_ratio": float(told.sum() / window.answered.sum()),
        "ttft_ms": _mean_ms(first - window.intended_ns, told),
        "client_ms": _mean_ms(window.sent_ns - window.intended_ns, told),
        "server_queue_ms": _mean_ms(queue_us * _NS_PER_US, told) if queued else None,
        "server_prompt_ms": _mean_ms(side.prompt_us * _NS_PER_US, told),
        "between_ms": _mean_ms(first - window.sent_ns - own_ns, told),
    }


def _mean_ms(values_ns: NDArray[np.int64], of: NDArray[np.bool_]) -> float:
    return float(values_ns[of].mean() / _NS_PER_MS)
