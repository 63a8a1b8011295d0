"""A ring buffer of samples as the kernel has it, in a file: who writes is the test."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from inferbench_tasks.monitors.perf_samples import Ring

PAGE = mmap.PAGESIZE
SIZE = 64 * PAGE
#: Of a sample's record, and of one that tells of lost ones.
SAMPLE_BYTES, LOST_BYTES = 32, 24


def sample(time_ns: int, address: int = 0x40) -> bytes:
    """A record as the kernel writes it."""
    return struct.pack("=IHHQIIQ", 9, 0, SAMPLE_BYTES, address, 1, 2, time_ns)


def lost(count: int) -> bytes:
    """So many found no room before."""
    return struct.pack("=IHHQQ", 2, 0, LOST_BYTES, 5, count)


class Kernel:
    """Writes records where there is room, and else counts them, as ``perf_output_begin`` does."""

    def __init__(self, path: Path, at: int = 0) -> None:
        path.write_bytes(bytes(PAGE + SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), PAGE + SIZE)
            struct.pack_into("=QQ", self._map, 1024, at, at)
            self.ring = Ring(file.fileno())
        self._lost = 0

    def places(self) -> tuple[int, int]:
        """How far it was written, and how far read."""
        head, tail = struct.unpack_from("=QQ", self._map, 1024)
        return head, tail

    def write(self, *records: bytes) -> None:
        """Each of them, if there is room."""
        for record in records:
            whole = (lost(self._lost) if self._lost else b"") + record
            head, tail = self.places()
            if (tail - head - 1) % SIZE < len(whole):
                self._lost += 1
                continue
            self._lost = 0
            for at, byte in enumerate(whole, head):
                self._map[PAGE + at % SIZE] = byte
            struct.pack_into("=Q", self._map, 1024, head + len(whole))
