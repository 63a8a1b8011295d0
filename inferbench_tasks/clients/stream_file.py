"""Streams as they came, on their way from a sender to the figures: bytes and the moments of their reads.

A sender must not spend its loop's time on JSON, so it appends what came to a file of its own and reads it after the
load. A stream is written in pieces: when it ends, and whenever it has become large, so that a sender's memory does
not depend on how much a server sends.
"""

from __future__ import annotations

import array
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import StorageError

#: Of each read: when its bytes arrived and how long they waited for it (ns; -1 where the arrival is the read's own
#: moment), and how many bytes of its piece there were after it.
READ_FIELDS = 3
_READ_BYTES = 8 * READ_FIELDS
#: Request id, reads, bytes.
_HEAD = struct.Struct("<qII")
_BUFFER_BYTES = 1 << 20


class Streams(ABC):
    """Who keeps what came of streams."""

    @abstractmethod
    def keep(self, request_id: int, reads: array.array[int], body: bytearray) -> None:
        """Keep a piece; ``reads``: the ``READ_FIELDS`` of each read, one after the other."""


class KeptStream:
    """All pieces of one stream, with the arrival of each read and the bytes of the stream after it."""

    def __init__(self) -> None:
        self.body = bytearray()
        self._arrivals: list[NDArray[np.int64]] = []
        self._waited: list[NDArray[np.int64]] = []
        self._ends: list[NDArray[np.int64]] = []

    def add(self, reads: NDArray[np.int64], body: bytes | bytearray) -> None:
        """Append a piece."""
        rows = reads.reshape(-1, READ_FIELDS)
        self._arrivals.append(rows[:, 0])
        self._waited.append(rows[:, 1])
        self._ends.append(rows[:, 2] + len(self.body))
        self.body += body

    @property
    def arrivals_ns(self) -> NDArray[np.int64]:
        """CLOCK_MONOTONIC of each read's bytes."""
        return np.concatenate(self._arrivals)

    @property
    def waited_ns(self) -> NDArray[np.int64]:
        """How long they waited for the read; -1 where the arrival is the read's own moment."""
        return np.concatenate(self._waited)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Ascending: bytes of the stream that had come with each read."""
        return np.concatenate(self._ends)


class KeptStreams(Streams, dict[int, KeptStream]):
    """In memory, by request: of a few requests beside a load."""

    def keep(self, request_id: int, reads: array.array[int], body: bytearray) -> None:
        self.setdefault(request_id, KeptStream()).add(np.array(reads, np.int64), body)


class StreamWriter(Streams):
    """Appends to one shard's file. What was written when the sender is killed stays; a piece cut off is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "wb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - lives as long as the sender
        except OSError as error:
            raise StorageError(f"The streams can't be written to {path}: {error}") from error

    def keep(self, request_id: int, reads: array.array[int], body: bytearray) -> None:
        try:
            self._file.write(_HEAD.pack(request_id, len(reads) // READ_FIELDS, len(body)))
            self._file.write(reads)
            self._file.write(body)
        except OSError as error:
            raise StorageError(f"The streams can't be written to {self.path}: {error}") from error

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        try:
            self._file.flush()
        except OSError as error:
            raise StorageError(f"The streams can't be written to {self.path}: {error}") from error

    def close(self) -> None:
        """Write what is buffered; harmless when closed."""
        self._file.close()


class StreamFile:
    """A shard's file, to be read: one stream at a time, in the order in which they began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pieces: dict[int, list[tuple[int, int, int]]] = {}
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - closed by __exit__
            size = path.stat().st_size
        except OSError as error:
            raise StorageError(f"{path} can't be read as the streams of a shard: {error}") from error
        at = 0
        while at + _HEAD.size <= size:
            self._file.seek(at)
            request_id, reads, length = _HEAD.unpack(self._file.read(_HEAD.size))
            at += _HEAD.size
            if at + _READ_BYTES * reads + length > size:
                break
            self._pieces.setdefault(request_id, []).append((at, reads, length))
            at += _READ_BYTES * reads + length

    def __enter__(self) -> StreamFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[tuple[int, KeptStream]]:
        for request_id, pieces in self._pieces.items():
            stream = KeptStream()
            for at, reads, length in pieces:
                self._file.seek(at)
                fields = np.frombuffer(self._file.read(_READ_BYTES * reads), "<i8")
                stream.add(fields, self._file.read(length))
            yield request_id, stream
