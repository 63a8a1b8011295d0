"""A trace file of another tool: its size, whether it is packed, and which form it has."""

from __future__ import annotations

import hashlib
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.tracing.foreign import chrome, otlp_json, otlp_protobuf
from inferbench_tasks.tracing.foreign.base import MAX_BYTES, Foreign

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_OTLP, _CHROME = b'"resourceSpans"', b'"traceEvents"'
_FORMS = "OTLP as protobuf, OTLP as JSON (`resourceSpans`) and Chrome's trace format (`traceEvents`)"
#: 16: a header of gzip is expected.
_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class TraceFile:
    """``sha256`` and ``size_bytes``: of the file as it lies there; ``content``: unpacked, without a byte order mark;
    ``packed``: whether it came packed."""

    name: str
    sha256: str
    size_bytes: int
    content: bytes
    packed: bool


def load(path: Path) -> TraceFile:
    """The file's content. InputError where it is none, empty, or too large, packed or not; StorageError."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is no file")
        if status.st_size > MAX_BYTES:
            raise InputError(
                f"{path} has {status.st_size:,} bytes, allowed are {MAX_BYTES:,}; take a part of it"
            )
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there") from error
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    if not raw or len(raw) > MAX_BYTES:
        raise InputError(f"{path} is empty" if not raw else f"{path} grew beyond {MAX_BYTES:,} bytes")
    packed = raw.startswith(_GZIP)
    content = (_unpacked(raw, path) if packed else raw).removeprefix(_BOM)
    return TraceFile(path.name, hashlib.sha256(raw).hexdigest(), len(raw), content, packed)


def _unpacked(raw: bytes, path: Path) -> bytes:
    """What gzip packed, one member behind the other; no byte beyond the bound is unpacked."""
    parts: list[bytes] = []
    size = 0
    while raw:
        unpacker = zlib.decompressobj(_WINDOW)
        try:
            parts.append(unpacker.decompress(raw, MAX_BYTES + 1 - size))
        except zlib.error as error:
            raise InputError(f"{path} can't be unpacked by gzip: {error}") from error
        size += len(parts[-1])
        if size > MAX_BYTES:
            raise InputError(f"{path} unpacks to more than {MAX_BYTES:,} bytes; take a part of it")
        if not unpacker.eof:
            raise InputError(f"{path} is cut off: gzip's end is missing")
        raw = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)


def read(file: TraceFile) -> Foreign:
    """Its spans, by what the file begins with; InputError for another form."""
    content = file.content
    # Protobuf's first byte, that of a list of ResourceSpans, is JSON's line feed; what follows decides.
    if content[:1] == b"\n" and otlp_protobuf.is_one(content):
        return otlp_protobuf.read(content)
    if content.lstrip()[:1] not in (b"{", b"["):
        raise InputError(f"{file.name} is no trace; allowed are {_FORMS}, each also packed by gzip")
    # Both may stand in texts of the other one's: that which comes first is the document's.
    at = {reader: content.find(name) for reader, name in ((otlp_json.read, _OTLP), (chrome.read, _CHROME))}
    named = {reader: place for reader, place in at.items() if place >= 0}
    if content.lstrip()[:1] == b"[":
        return chrome.read(content)
    if not named:
        raise InputError(f"{file.name} has neither `resourceSpans` nor `traceEvents`; allowed are {_FORMS}")
    return min(named, key=named.__getitem__)(content)
