"""Answers that are recognised by their form: the same truth as frame by frame, whatever differs."""

from __future__ import annotations

import struct

import pytest

from inferbench_tasks.clients import http2
from inferbench_tasks.clients.grpc_form import AnswerForm, RequestForm
from inferbench_tasks.clients.grpc_message import frame
from inferbench_tasks.loadgen.null_server import answer_message
from tests.load_servers import ANSWER_BYTES, FaultyGrpc, grpc_error
from tests.unit.clients.test_grpc import exchange, good, statuses

_HEAD = b"\x88" + http2.literal("content-type", "application/grpc")
_TRAILERS = http2.literal("grpc-status", "0")
_MESSAGE = frame(answer_message("grpc", ANSWER_BYTES))


def _answer(stream_id: int) -> bytes:
    return b"".join(
        (
            http2.frame(http2.HEADERS, http2.END_HEADERS, stream_id, _HEAD),
            http2.frame(http2.DATA, 0, stream_id, _MESSAGE),
            http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream_id, _TRAILERS),
        )
    )


def test_an_answer_of_the_form_is_found_wherever_it_begins() -> None:
    """Its stream, at any place in the data; nothing while its last byte is missing."""
    form = AnswerForm(_HEAD, len(_MESSAGE), _TRAILERS)
    data = b"123" + _answer(70_001) + _answer(5)
    assert form.stream_at(data, 3) == 70_001
    assert form.stream_at(data, 3 + form.bytes) == 5
    assert form.stream_at(data[:-1], 3 + form.bytes) == 0


def test_only_the_message_may_differ() -> None:
    """Each byte in turn: a changed message has the form, any other changed byte has not."""
    form = AnswerForm(_HEAD, len(_MESSAGE), _TRAILERS)
    whole = _answer(7)
    message_at = whole.index(_MESSAGE)
    for index in range(len(whole)):
        changed = whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :]
        in_message = message_at <= index < message_at + len(_MESSAGE)
        assert form.stream_at(changed, 0) == (7 if in_message else 0), index


@pytest.mark.parametrize("size", [0, 5, 16_384])
def test_a_request_is_its_headers_and_one_frame_of_data(size: int) -> None:
    """What is put together from the form is what the frames say one by one."""
    form = RequestForm(_HEAD)
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, 9, _HEAD)
    assert form.head(9) == head
    data = http2.frame(http2.DATA, http2.END_STREAM, 9, bytes(size))
    assert form.whole(9, bytes(size)) == form.whole(9, bytes(size)) == head + data


def test_metadata_of_one_request_stand_behind_the_headers_of_all() -> None:
    """The message is the same bytes; the form without them is as it was."""
    form = RequestForm(_HEAD)
    block = _HEAD + http2.literal("traceparent", "00-1")
    head = http2.frame(http2.HEADERS, http2.END_HEADERS, 9, block)
    data = http2.frame(http2.DATA, http2.END_STREAM, 9, b"message")
    assert form.beside([("traceparent", "00-1")]).whole(9, b"message") == head + data
    assert form.headers == _HEAD


def test_good_and_bad_answers_in_turn_are_told_apart() -> None:
    """Once the form is known, errors, resets, pieces and other lengths between are what they are."""

    def fault(number: int, stream_id: int) -> list[bytes] | None:
        if number % 5 == 1:
            return grpc_error(stream_id, 8, "full")
        if number % 5 == 2:
            return [http2.rst_stream(stream_id, http2.CANCEL)]
        if number % 5 == 3:
            return good(stream_id)
        if number % 5 == 4:
            short = http2.frame(http2.DATA, 0, stream_id, frame(b""))
            end = http2.END_HEADERS | http2.END_STREAM
            return [
                http2.frame(http2.HEADERS, http2.END_HEADERS, stream_id, _HEAD),
                short,
                http2.frame(http2.HEADERS, end, stream_id, _TRAILERS),
            ]
        return None

    sink, _ = exchange(lambda: FaultyGrpc(fault), count=100)
    ended = list(sink.ended.values())
    assert {status: ended.count(status) for status in statuses(sink)} == {
        "ok": 40,
        "grpc_resource_exhausted": 20,
        "grpc_cancelled": 20,
        "bad_response": 20,
    }


def test_an_answer_that_nobody_waits_for_ends_nothing() -> None:
    """The same good answer twice: the second belongs to no request."""
    sink, _ = exchange(lambda: FaultyGrpc(lambda n, s: [*good(s), _answer(s), _answer(s)]), count=30)
    assert statuses(sink) == {"ok"}
    assert len(sink.ended) == 30


def test_answers_that_come_byte_by_byte_are_whole_in_the_end() -> None:
    """Cut at every place: what is left over is completed by the next piece."""

    class Slow(FaultyGrpc):
        """Sends each byte of its answers by itself."""

        def _answer(self, stream_id: int, out: list[bytes]) -> None:
            super()._answer(stream_id, out)
            if stream_id > 5:
                pieces = b"".join(out)
                out.clear()
                for byte in struct.unpack(f"{len(pieces)}c", pieces):
                    self._transport.write(byte)

    sink, _ = exchange(Slow, count=12)
    assert statuses(sink) == {"ok"}, sink.words
