"""The streams of a load beside its requests: which token came when, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.openai_form import NONE
from inferbench_tasks.loadgen.token_records import STREAMS_JUDGED
from inferbench_tasks.loadgen.window import Window

#: More tokens than this in a single read are no pace of a server: something kept the stream back.
BUFFERED_TOKENS = 8
_UNKNOWN = -1


@dataclass(frozen=True)
class TokenWindow:
    """Of each record of ``window``, in its order: token counts (-1: not told) and moments (-1: none).

    ``output_tokens`` are by usage; where the server tells none and a tokenizer of ours counted the answer's text, they
    are by that (``by_tokenizer``).

    Of the token chunks of good answers, a request's one after the other: ``chunk_row`` (its record), ``chunk_ns`` and
    ``chunk_waited_us`` (from the kernel's stamp to the read; -1: stamped by the read), ``chunk_followed`` (another
    event came in the same read behind it, whose moment it carries).
    """

    window: Window
    chunks: NDArray[np.int64]
    reads: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    first_chunk_tokens: NDArray[np.int64]
    first_chunk_by: NDArray[np.int64]
    first_token_ns: NDArray[np.int64]
    first_output_ns: NDArray[np.int64]
    last_token_ns: NDArray[np.int64]
    by_tokenizer: NDArray[np.bool_]
    chunk_row: NDArray[np.int64]
    chunk_ns: NDArray[np.int64]
    chunk_waited_us: NDArray[np.int64]
    chunk_followed: NDArray[np.bool_]

    @classmethod
    def of(
        cls, window: Window, streams: Mapping[str, NDArray[Any]], chunks: Mapping[str, NDArray[Any]]
    ) -> TokenWindow:
        """Put both files' rows to the records that they are of; of ``streams`` those of ``STREAMS_JUDGED``."""
        order = np.argsort(window.request_id, kind="stable")
        row = places(window.request_id, order, streams["request_id"])
        known = row >= 0
        columns: dict[str, NDArray[np.int64]] = {}
        for name in STREAMS_JUDGED.names[1:]:
            column = np.full(len(order), 0 if name in ("chunks", "reads") else _UNKNOWN, np.int64)
            column[row[known]] = streams[name][known]
            columns[name] = column
        text_tokens, output_tokens = columns.pop("text_tokens"), columns["output_tokens"]
        # Fewer than the chunks are not the model's tokens: each chunk had one.
        by_tokenizer = (output_tokens < 0) & (text_tokens > 0) & (text_tokens >= columns["chunks"])
        columns["output_tokens"] = np.where(by_tokenizer, text_tokens, output_tokens)
        chunk_row = places(window.request_id, order, chunks["request_id"])
        token = (chunks["kind"] != NONE) & (chunk_row >= 0)
        token[token] = window.ok[chunk_row[token]]
        return cls(
            window=window,
            by_tokenizer=by_tokenizer,
            chunk_row=chunk_row[token],
            chunk_ns=chunks["arrival_ns"][token].astype(np.int64),
            chunk_waited_us=chunks["waited_us"][token].astype(np.int64),
            chunk_followed=_followed(chunks)[token],
            **columns,
        )

    @property
    def stamped_by_kernel(self) -> bool:
        """Whether the kernel stamped all chunks, so that no moment holds what the sender waited for a core."""
        return bool(len(self.chunk_waited_us)) and bool((self.chunk_waited_us >= 0).all())

    def held_up(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sender that may have stamped these chunks late, -1 where none can have.

        A stamp of the kernel holds no wait of the sender's, but where it is that of an event behind the chunk, which
        the wait brought into the same read.
        """
        shard = self.window.shard[self.chunk_row[chunks]]
        if not self.stamped_by_kernel:
            return shard
        return np.where(self.chunk_followed[chunks], shard, -1)

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and the last token chunk of each record by their places; 0 where it has none."""
        first, last = (np.zeros(len(self.chunks), np.int64) for _ in range(2))
        numbers = np.arange(len(self.chunk_row))
        last[self.chunk_row] = numbers
        first[self.chunk_row[::-1]] = numbers[::-1]
        return first, last

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Whose tokens somebody counted."""
        return (self.output_tokens >= 0) & (self.first_chunk_tokens >= 0)

    @property
    def from_cache(self) -> NDArray[np.int64]:
        """Tokens of each prompt that a cache had; -1: nobody knows.

        Some servers leave that out where there are none (vLLM): if one answer of the load tells it, usage without it
        is 0.
        """
        silent = (self.cached_tokens < 0) & (self.prompt_tokens >= 0)
        return np.where(silent & (self.cached_tokens >= 0).any(), 0, self.cached_tokens)

    @property
    def buffered(self) -> NDArray[np.bool_]:
        """Whose stream came at once: when its tokens were made is not known."""
        tokens = np.maximum(self.output_tokens, self.chunks)
        buffered: NDArray[np.bool_] = (tokens > BUFFERED_TOKENS) & (self.reads == 1)
        return buffered

    @property
    def at_once(self) -> NDArray[np.bool_]:
        """Whose few tokens came in several chunks of one read, with one moment: nobody waited between them, and how
        long the server did is not known."""
        at_once: NDArray[np.bool_] = (self.chunks > 1) & (self.reads == 1) & ~self.buffered
        return at_once

    @property
    def in_window(self) -> NDArray[np.bool_]:
        """Good answers of which some tokens may have arrived in the window: its ends lie not both on one side."""
        window = self.window
        there = window.ok & (self.first_token_ns >= 0)
        inside: NDArray[np.bool_] = (
            there & (self.last_token_ns > window.start_ns) & (self.first_token_ns <= window.end_ns)
        )
        return inside

    @property
    def cut_by_window(self) -> int:
        """Good answers of which the window has some tokens and not all: more of them make tokens/s less sure."""
        window = self.window
        whole = (self.first_token_ns > window.start_ns) & (self.last_token_ns <= window.end_ns)
        return int(np.count_nonzero(self.in_window & ~whole))

    @property
    def single(self) -> NDArray[np.bool_]:
        """Whose tokens all belong to the first chunk: there is no time between tokens, and none is missing."""
        single: NDArray[np.bool_] = self.output_tokens == self.first_chunk_tokens
        return single & self.counted & ~self.buffered

    @property
    def tpot_ns(self) -> NDArray[np.float64]:
        """(c_m - c_1) / (N - n_1); NaN where it is not defined."""
        tokens = self.output_tokens - self.first_chunk_tokens
        defined = self.counted & (tokens > 0) & ~self.buffered & ~self.at_once
        tpot = np.full(len(tokens), np.nan)
        tpot[defined] = (self.last_token_ns - self.first_token_ns)[defined] / tokens[defined]
        return tpot

    def gaps(self, of: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times between a request's token chunks, ns, and the record of each; of the records in the mask."""
        later = self.followers(of)
        return self.chunk_ns[later] - self.chunk_ns[later - 1], self.chunk_row[later]

    def followers(self, of: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The token chunks that follow another one of their request, by their places; of the records in the mask."""
        same = (self.chunk_row[1:] == self.chunk_row[:-1]) & of[self.chunk_row[1:]]
        return np.flatnonzero(same) + 1

    def tokens_within(self, of: NDArray[np.bool_]) -> float | None:
        """Output tokens that arrived in the window, of the records in the mask; None where one's were not counted."""
        _, tokens = self.arrived_within(of)
        return None if tokens is None else float(tokens.sum())

    def arrived_within(self, of: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.float64] | None]:
        """The chunks that arrived in the window, of the records in the mask, and the tokens of each.

        The first chunk has its own tokens, the others share the rest alike. None where a record's were not counted.
        """
        window = self.window
        inside = (self.chunk_ns > window.start_ns) & (self.chunk_ns <= window.end_ns) & of[self.chunk_row]
        row = self.chunk_row[inside]
        if not self.counted[row].all():
            return inside, None
        first = np.ones(len(self.chunk_row), np.bool_)
        first[1:] = self.chunk_row[1:] != self.chunk_row[:-1]
        rest = (self.output_tokens - self.first_chunk_tokens) / np.maximum(self.chunks - 1, 1)
        return inside, np.where(first[inside], self.first_chunk_tokens[row], rest[row]).astype(np.float64)


def _followed(chunks: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Of each event, whether the next one of its request came in the same read: their moments are the same."""
    followed = np.zeros(len(chunks["request_id"]), np.bool_)
    followed[:-1] = (chunks["request_id"][1:] == chunks["request_id"][:-1]) & (
        chunks["arrival_ns"][1:] == chunks["arrival_ns"][:-1]
    )
    return followed


def places(ids: NDArray[np.int64], order: NDArray[np.int64], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each wanted id among ``ids``, which ``order`` sorts; -1 where it is none of them."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    found: NDArray[np.int64] = np.where(ids[order][at] == wanted, order[at], -1)
    return found
