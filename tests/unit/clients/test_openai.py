"""The streaming client's connection, fed with bytes in any pieces."""

from __future__ import annotations

import array
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.clients import openai as module
from inferbench_tasks.clients.base import OK, RESET, Call, Payload
from inferbench_tasks.clients.openai import StreamConnection
from inferbench_tasks.clients.stream_file import KeptStreams, Streams
from tests.unit.clients.test_openai_form import DONE, END, A, B, usage

BODY = A + b": a comment\r\n\r\n" + B * 3 + END + usage(9) + DONE
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Owner:
    """What a connection needs of its client."""

    def __init__(self, max_bytes: int = 1 << 20) -> None:
        self.kept = KeptStreams()
        self.settings: Any = SimpleNamespace(streams=self.kept, connections=1)
        self.check: Any = SimpleNamespace(max_bytes=max_bytes)
        self.ended: list[str] = []
        self.words: list[str] = []
        self.held = self.reused = 0
        self.closes_kept = False
        self.again: list[int] = []

    def free(self, connection: StreamConnection) -> None:
        """It can be used again."""
        self.reused += 1

    def lost(self, connection: StreamConnection) -> None:
        """It is no more."""

    def send_again(self, call: Call) -> None:
        """It is sent on another connection."""
        self.again.append(call.request_id)

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        """A call has ended."""
        self.ended.append(status)

    def explain(self, status: str, text: str) -> None:
        """Words on a failure."""
        self.words.append(text)


def connection(owner: Owner) -> StreamConnection:
    """One that has sent request 7."""
    made = StreamConnection(owner)  # type: ignore[arg-type]
    made.connection_made(SimpleNamespace(write=lambda data: None, abort=lambda: None))  # type: ignore[arg-type]
    made.send(Call(7, 0, Payload(b"", 0, 1)))
    return made


def chunked(pieces: list[bytes]) -> bytes:
    """The body in HTTP chunks of those pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, cut at those places."""
    bounds = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds) if stop > start]


@given(st.lists(st.integers(0, 5000), max_size=30), st.lists(st.integers(0, 5000), max_size=8), st.booleans())
def test_the_stream_is_the_same_however_it_is_cut(
    reads: list[int], chunks: list[int], in_chunks: bool
) -> None:
    """By reads, HTTP's chunks, or its length; each read of body bytes has one moment, and the last all bytes."""
    owner = Owner()
    made = connection(owner)
    if in_chunks:
        wire = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(cut(BODY, chunks))
    else:
        wire = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    pieces = cut(wire, reads)
    for piece in pieces:
        made.data_received(piece)
    kept = owner.kept[7]
    assert (owner.ended, owner.reused) == ([OK], 1)
    assert bytes(kept.body) == BODY
    assert kept.ends[-1] == len(BODY) and (np.diff(kept.ends) > 0).all()
    assert (np.diff(kept.arrivals_ns) >= 0).all() and len(kept.ends) <= len(pieces)


def test_a_body_may_end_with_the_connection() -> None:
    """HTTP/1.0's way; the connection is not used again."""
    owner = Owner()
    made = connection(owner)
    made.data_received(HEAD + b"\r\n" + BODY)
    assert owner.ended == []
    made.connection_lost(None)
    assert (owner.ended, owner.reused, bytes(owner.kept[7].body)) == ([OK], 0, BODY)


def test_a_chunked_body_that_ends_with_the_connection_is_cut_off() -> None:
    """What came of it is kept, and it is a failure."""
    owner = Owner()
    made = connection(owner)
    made.data_received(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(A), A))
    made.connection_lost(None)
    assert (owner.ended, bytes(owner.kept[7].body)) == ([RESET], A)


class _Counting(Streams):
    """Remembers how large pieces were."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def keep(self, request_id: int, reads: array.array[int], body: bytearray) -> None:
        self.sizes.append(len(body) + 8 * len(reads))


@pytest.mark.parametrize("step", [1, 100_000])
def test_memory_does_not_grow_with_a_stream(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile server's bytes are handed on in pieces, one by one as well as many at once, and end at a limit."""
    monkeypatch.setattr(module, "_PIECE_READS", 64)
    limit = 500 if step == 1 else 1 << 20
    owner = Owner(max_bytes=limit)
    pieces = _Counting()
    owner.settings.streams = pieces
    made = connection(owner)
    made.data_received(HEAD + b"\r\n")
    sent = 0
    while not owner.ended:
        made.data_received(b"x" * step)
        sent += step
    assert owner.ended == ["stream_too_large"]
    assert sent <= limit + step
    assert len(pieces.sizes) > 2
    assert max(pieces.sizes) <= module._PIECE_BYTES + step + 24 * (64 + 1)


def test_the_next_answer_on_the_connection_is_counted_from_the_beginning() -> None:
    """Two requests one after the other."""
    owner = Owner()
    made = connection(owner)
    wire = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    made.data_received(wire)
    made.send(Call(8, 0, Payload(b"", 0, 1)))
    made.data_received(wire)
    assert bytes(owner.kept[7].body) == bytes(owner.kept[8].body) == BODY
    assert list(owner.kept[8].ends) == [len(BODY)]


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("received", [b"", b"HTTP/1.1 200"])
def test_a_kept_connection_that_is_closed_is_no_failure(answered: int, received: bytes) -> None:
    """Where an answer came over it before and none had begun; on a new connection it is one."""
    owner = Owner()
    made = connection(owner)
    if answered:
        made.data_received(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
        made.send(Call(8, 0, Payload(b"", 0, 1)))
    if received:
        made.data_received(received)
    made.connection_lost(ConnectionResetError())
    if answered and not received:
        assert (owner.again, owner.ended) == ([8], [OK])
    else:
        assert (owner.again, owner.ended[-1]) == ([], RESET)


def test_a_refusal_is_told_in_the_servers_words_and_is_no_stream() -> None:
    """A rejected request is no answer with one token."""
    owner = Owner()
    made = connection(owner)
    made.data_received(b"HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nslow")
    assert (owner.ended, owner.words, dict(owner.kept)) == (["http_4xx"], ["HTTP 429: slow"], {})
