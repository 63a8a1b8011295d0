"""After the load: what the streams say. Which were no answers is written into the requests' records.

While the load runs nothing is decoded, so that a sender's loop is never held up by JSON. Here each stream is read and
judged (``clients.openai_form``); its chunks get the moments of the reads that completed them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.base import OK
from inferbench_tasks.clients.openai_form import (
    BAD,
    CONTENT,
    NONE,
    REASONING,
    StreamText,
    read_stream,
    without_key,
)
from inferbench_tasks.clients.stamped_transport import NOT_STAMPED
from inferbench_tasks.clients.stream_file import KeptStream, StreamFile
from inferbench_tasks.errors import StorageError
from inferbench_tasks.formats.token_counter import TokenCounter, token_counter
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Spool
from inferbench_tasks.loadgen.token_records import (
    CHUNKS,
    FIRST_BY,
    SERVER_TIMES,
    STREAMS_WRITTEN,
    TableWriter,
)

#: What a token may take of a stream, with all that a server writes around it.
_TOKEN_BYTES = 4096
_LEAST_BYTES = 64 * 1024
_MOST_US = np.iinfo(np.int32).max
_UNKNOWN, _BY_USAGE, _BY_TEXT = range(len(FIRST_BY))


@dataclass(frozen=True)
class Judged:
    """``explanations``: the first words on each kind of bad stream. ``said``: models that the server named."""

    streams_path: Path
    chunks_path: Path
    explanations: dict[str, str]
    said: tuple[str, ...]


def judge_streams(plan: LoadPlan, spools: tuple[Path, ...], samples_path: Path) -> Judged:
    """Read what every sender kept; write both files beside the samples and the failures into the spools.

    The senders' raw bytes are removed afterwards.
    """
    assert plan.stream is not None
    key = plan.stream.key()
    asked = read_inputs(plan.inputs_path).get("max_tokens")
    tokenizer = token_counter(plan.vocabulary) if plan.vocabulary else None
    judged = Judged(
        samples_path.with_name("streams.parquet"), samples_path.with_name("chunks.parquet"), {}, ()
    )
    said: dict[str, None] = {}
    by_read = by_kernel = 0
    with (
        TableWriter(judged.streams_path, STREAMS_WRITTEN) as streams,
        TableWriter(judged.chunks_path, CHUNKS) as chunks,
    ):
        for path in spools:
            spool = Spool(path)
            if not spool.rows:
                continue
            spool.add_statuses(BAD)
            rows = spool.rows_in_place()
            for row, request_id, kept in _of_rows(plan, spool, rows):
                tokens = int(asked[rows["sample_index"][row]]) if asked is not None else -1
                body = bytes(kept.body) if kept is not None else b""
                stream = read_whole(body, tokens, with_answer=tokenizer is not None)
                if kept is not None and stream.kinds:
                    rows_of = _rows(request_id, stream, kept, plan.turn_step, _text_tokens(stream, tokenizer))
                    chunks.add(*rows_of.chunks)
                    streams.add(*rows_of.stream)
                    by_read, by_kernel = by_read + rows_of.by_read, by_kernel + rows_of.by_kernel
                    said.update(dict.fromkeys(filter(None, stream.said)))
                if rows["status"][row] == spool.statuses.index(OK) and stream.problem:
                    status, words = stream.problem
                    rows["status"][row] = spool.statuses.index(status)
                    judged.explanations.setdefault(status, without_key(words, key))
            rows.flush()
        stamp = {"stamp": "kernel" if by_kernel and not by_read else "read"}
        streams.tell(stamp)
        chunks.tell(stamp)
    for index in range(plan.shards):
        plan.streams_path(index).unlink(missing_ok=True)
    names = tuple(without_key(name, key)[:200] for name in list(said)[:8])
    return Judged(judged.streams_path, judged.chunks_path, judged.explanations, names)


def _of_rows(
    plan: LoadPlan, spool: Spool, rows: NDArray[Any]
) -> Iterator[tuple[int, int, KeptStream | None]]:
    """Each record whose request was answered with a stream, or should have been: its row, its id, what came."""
    place = {int(request_id): row for row, request_id in enumerate(rows["request_id"])}
    refused = {code for code, name in enumerate(spool.statuses) if name.startswith("http_")}
    try:
        with StreamFile(plan.streams_path(spool.shard)) as file:
            for request_id, kept in file:
                row = place.pop(request_id, None)
                if row is not None and int(rows["status"][row]) not in refused:
                    yield row, request_id, kept
    except StorageError:
        if not plan.streams_path(spool.shard).exists():  # the sender died before it began
            return
        raise
    for request_id, row in place.items():
        yield row, request_id, None


def read_whole(body: bytes, max_tokens: int, *, with_answer: bool = False) -> StreamText:
    """A whole stream, judged by the most tokens that its request allowed (-1: any number)."""
    asked_tokens = max_tokens if max_tokens > 0 else None
    limit = _LEAST_BYTES + _TOKEN_BYTES * asked_tokens if asked_tokens is not None else len(body)
    stream = read_stream(body[:limit], asked_tokens, with_answer=with_answer)
    if len(body) > limit:
        words = f"{BAD['stream_too_large']}: {len(body):,} bytes for {asked_tokens} tokens"
        stream.problem = ("stream_too_large", words)
    return stream


class _Rows(NamedTuple):
    """A stream's rows of both files, and how many of its reads had no stamp of the kernel and how many had one."""

    chunks: tuple[NDArray[Any], ...]
    stream: tuple[NDArray[Any], ...]
    by_read: int
    by_kernel: int


def _text_tokens(stream: StreamText, tokenizer: TokenCounter | None) -> int:
    """The tokens of the answer's text; -1 where nobody knows, or something else than text was said."""
    spoken = all(kind in (NONE, CONTENT) for kind in stream.kinds)
    if tokenizer is None or stream.answer is None or not spoken:
        return -1
    (tokens,) = tokenizer.count(["".join(stream.answer)])
    return tokens


def _rows(request_id: int, stream: StreamText, kept: KeptStream, turn_step: int, text_tokens: int) -> _Rows:
    """Each event arrives with the read that completed it."""
    read = np.searchsorted(kept.ends, np.array(stream.ends, np.int64), "left")
    arrival_ns = kept.arrivals_ns[read]
    waited_ns = kept.waited_ns
    # Rounded up, as -(-a // b) does: what waited for less than a microsecond was stamped all the same.
    waited_us = np.minimum(np.where(waited_ns >= 0, -(-waited_ns // 1000), NOT_STAMPED), _MOST_US)
    kinds = np.array(stream.kinds, np.int8)
    chunks = (
        np.full(len(read), request_id, np.int64),
        arrival_ns,
        np.array(stream.text_bytes, np.int32),
        kinds,
        waited_us[read].astype(np.int32),
    )
    token_ns, output_ns = arrival_ns[kinds != NONE], arrival_ns[(kinds != NONE) & (kinds != REASONING)]
    of_tokens = read[kinds != NONE]  # ascending: a new read where it changes
    count, by = first_chunk_tokens(stream, text_tokens)
    values = (
        request_id,
        len(token_ns),
        int(np.count_nonzero(np.diff(of_tokens))) + 1 if len(of_tokens) else 0,
        -1 if stream.prompt_tokens is None else stream.prompt_tokens,
        -1 if stream.cached_tokens is None else stream.cached_tokens,
        -1 if stream.output_tokens is None else stream.output_tokens,
        count,
        by,
        int(token_ns[0]) if len(token_ns) else -1,
        int(output_ns[0]) if len(output_ns) else -1,
        int(token_ns[-1]) if len(token_ns) else -1,
        request_id % turn_step if turn_step else request_id,
        request_id // turn_step if turn_step else 0,
        text_tokens,
        *(-1 if (value := getattr(stream.times, name, None)) is None else value for name in SERVER_TIMES),
    )
    by_kernel = int(np.count_nonzero(waited_ns != NOT_STAMPED))
    row = tuple(np.array([value]) for value in values)
    return _Rows(chunks, row, len(waited_ns) - by_kernel, by_kernel)


def first_chunk_tokens(stream: StreamText, text_tokens: int = -1) -> tuple[int, int]:
    """Tokens of the first chunk with any, and how that is known (a number of ``FIRST_BY``).

    Exact where usage came with that chunk, where each chunk had one token, or there was one chunk. Else the share that
    the chunk has of the text's bytes, of the tokens that usage counted: each chunk has one at least. Without usage, of
    those of the whole text by a tokenizer; fewer than the chunks are none of the model's, which had one for each.
    """
    chunks, tokens = stream.chunks, stream.output_tokens
    if chunks and tokens is None and text_tokens >= chunks:
        return _by_bytes(stream, text_tokens), _BY_TEXT
    if not chunks or tokens is None or tokens < chunks:
        return -1, _UNKNOWN
    if stream.first_tokens is not None and 1 <= stream.first_tokens <= tokens - (chunks - 1):
        return stream.first_tokens, _BY_USAGE
    if chunks in (1, tokens):
        return tokens // chunks, _BY_USAGE
    return _by_bytes(stream, tokens), _BY_TEXT


def _by_bytes(stream: StreamText, tokens: int) -> int:
    """The first chunk's share of so many tokens: one at least, and one is left to each other chunk where there are."""
    sizes = [size for size, kind in zip(stream.text_bytes, stream.kinds, strict=True) if kind != NONE]
    share = round(tokens * sizes[0] / sum(sizes))
    return max(1, min(share, tokens - (stream.chunks - 1)))
