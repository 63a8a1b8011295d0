"""Server-sent events out of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.protocols.sse import Event, events

_DATA = st.binary(max_size=30).map(lambda data: bytes(byte for byte in data if byte not in b"\r\n"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_gives_the_same_events(end: bytes) -> None:
    """Data lines are joined, one space after the colon is no data, comments and other fields are left out."""
    lines = [
        b": hello",
        b"event: error",
        b"id: 7",
        b"data: one",
        b"data:two",
        b"data:  three",
        b"",
        b"data",
        b"",
        b"",
    ]
    body = end.join(lines)
    assert [(e.name, e.data) for e in events(body)] == [(b"error", b"one\ntwo\n three"), (b"", b"")]


def test_an_event_is_complete_with_its_empty_line() -> None:
    """Its end is where the empty line ends; the last one may lack it."""
    assert list(events(b"data: a\n\n\ndata: b")) == [Event(b"", b"a", 9), Event(b"", b"b", 17)]


def test_a_byte_order_mark_is_no_field() -> None:
    """It stands before the first field's name."""
    assert list(events(b"\xef\xbb\xbfdata: a\n\n")) == [Event(b"", b"a", 12)]


@given(st.lists(_DATA, min_size=1, max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_what_is_written_is_read(written: list[bytes], end: bytes) -> None:
    """Whatever bytes the data has beside line ends; the ends ascend and the last is the stream's."""
    body = b"".join(b"data: " + data + end + end for data in written)
    read = list(events(body))
    assert [event.data for event in read] == written
    assert [event.end for event in read] == sorted(event.end for event in read)
    assert read[-1].end == len(body)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_to_their_end(body: bytes) -> None:
    """No stream makes it fail, and no event lies beyond the stream."""
    assert all(0 < event.end <= len(body) for event in events(body))
