"""KServe v2's extension of system shared memory: tensors that a request only says the place of.

A region is a file of POSIX shared memory; here it is known to the server by the name of that file, its key.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

#: Parameters of a tensor of a request: where it lies.
REGION, OFFSET, BYTE_SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"
#: As servers tell it in their metadata.
EXTENSION = "system_shared_memory"
FOLDER = Path("/dev/shm")  # noqa: S108 - where POSIX has it on Linux
_KEY = re.compile(r"inferbench-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """``byte_size`` bytes from ``offset`` on in a region; ``shape`` with the batch axis."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    region: str
    offset: int
    byte_size: int


def new_key() -> str:
    """A name that nobody guesses: who knows it and is the same user reads the region."""
    return f"inferbench-{secrets.token_hex(16)}"


def path_of(key: str) -> Path:
    """The file of a region of ours; ValueError for any other name, so that none leads elsewhere."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.80} is no key of a region of InferBench's")
    return FOLDER / key
