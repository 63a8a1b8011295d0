"""Streams on their way from a sender to the figures."""

from __future__ import annotations

import array
from pathlib import Path

import pytest

from inferbench_tasks.clients.stream_file import StreamFile, StreamWriter
from inferbench_tasks.errors import StorageError


def write(path: Path) -> None:
    """Two streams, of which the first came in two pieces with the second between them."""
    writer = StreamWriter(path)
    writer.keep(3, array.array("q", [100, 7, 2, 110, -1, 5]), bytearray(b"hello"))
    writer.keep(4, array.array("q", [120, 0, 1]), bytearray(b"x"))
    writer.keep(3, array.array("q", [130, 9, 6]), bytearray(b" world"))
    writer.close()
    writer.close()


def test_pieces_of_a_stream_are_put_together(tmp_path: Path) -> None:
    """Their reads count on from piece to piece."""
    write(tmp_path / "s")
    with StreamFile(tmp_path / "s") as file:
        streams = dict(file)
    assert list(streams) == [3, 4]
    assert bytes(streams[3].body) == b"hello world"
    assert streams[3].arrivals_ns.tolist() == [100, 110, 130]
    assert streams[3].waited_ns.tolist() == [7, -1, 9]
    assert streams[3].ends.tolist() == [2, 5, 11]


@pytest.mark.parametrize("lost", [1, 6, 7, 20])
def test_a_piece_that_was_cut_off_is_left_out(tmp_path: Path, lost: int) -> None:
    """As where the sender was killed; what is before it stays."""
    write(tmp_path / "s")
    whole = (tmp_path / "s").read_bytes()
    (tmp_path / "s").write_bytes(whole[:-lost])
    with StreamFile(tmp_path / "s") as file:
        streams = dict(file)
    assert bytes(streams[3].body) == b"hello" and bytes(streams[4].body) == b"x"


def test_what_was_flushed_survives_the_sender(tmp_path: Path) -> None:
    """A killed sender closes nothing."""
    writer = StreamWriter(tmp_path / "s")
    writer.keep(3, array.array("q", [100, 0, 2]), bytearray(b"he"))
    writer.flush()
    with StreamFile(tmp_path / "s") as file:
        assert [request_id for request_id, _ in file] == [3]
    writer.close()


def test_no_file_is_told(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(StorageError, match="none"):
        StreamFile(tmp_path / "none")
