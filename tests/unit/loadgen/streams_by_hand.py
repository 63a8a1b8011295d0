"""Streams of tokens whose chunks came when a test says so."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.clients.openai_form import CONTENT, NONE
from inferbench_tasks.loadgen.token_records import CHUNKS, STREAMS_JUDGED
from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from inferbench_tasks.loadgen.token_window import TokenWindow
from inferbench_tasks.loadgen.window import Window
from tests.samples import samples_table

MS, S = 1_000_000, 1_000_000_000
#: The window: [10 s, 20 s).
START, END = 10 * S, 20 * S


def stream(arrivals_ms: list[float], tokens: int, first: int = 1, **more: Any) -> dict[str, Any]:
    """A stream whose token chunks came so long after the intended moment."""
    return {"arrivals_ms": arrivals_ms, "tokens": tokens, "first": first, **more}


def tokens_of(*streams: dict[str, Any], intended_s: list[float] | None = None) -> TokenWindow:
    """The streams of requests that were meant to leave at those seconds, sent 5 ms later."""
    intended = (np.array(intended_s or [11.0 + n for n in range(len(streams))]) * S).astype(np.int64)
    status = [item.get("status", "ok") for item in streams]
    last = [max(item["arrivals_ms"], default=0.0) + 1 for item in streams]
    window = Window.of(
        samples_table(
            {
                "intended_ns": intended,
                "sent_ns": intended + 5 * MS,
                "done_ns": intended + (np.array(last) * MS).astype(np.int64),
                "status": status,
                "phase": ["measure" if START <= moment < END else "warmup" for moment in intended],
            }
        ),
        START,
        END,
    )
    rows: dict[str, list[int]] = {name: [] for name in STREAMS_JUDGED.names}
    chunks: dict[str, list[int]] = {name: [] for name in CHUNKS.names}
    for number, item in enumerate(streams):
        moments = [int(intended[number] + ms * MS) for ms in item["arrivals_ms"]]
        values = {
            "request_id": int(window.request_id[number]), "chunks": len(moments),
            "reads": item.get("reads", len(set(moments))), "prompt_tokens": item.get("prompt", 10),
            "cached_tokens": item.get("cached", -1), "output_tokens": item["tokens"],
            "first_chunk_tokens": item["first"], "first_chunk_by": 1, "first_token_ns": moments[0] if moments else -1,
            "first_output_ns": moments[item.get("reasoning", 0)] if moments else -1,
            "last_token_ns": moments[-1] if moments else -1, "text_tokens": item.get("text", -1),
        }  # fmt: skip
        for name, value in values.items():
            rows[name].append(value)
        for moment in [int(intended[number]), *moments]:
            chunks["request_id"].append(values["request_id"])
            chunks["arrival_ns"].append(moment)
            chunks["bytes"].append(4)
            chunks["waited_us"].append(item.get("waited_us", -1))
            chunks["kind"].append(NONE if moment == intended[number] else CONTENT)
    as_arrays = {name: np.array(column, np.int64) for name, column in rows.items()}
    return TokenWindow.of(window, as_arrays, {name: np.array(column) for name, column in chunks.items()})


def figures(*streams: dict[str, Any], each: Each | None = None, **more: Any) -> dict[str, Any]:
    """The figures of such streams."""
    return summarise_tokens(tokens_of(*streams, **more), each or Each())
