"""Server-sent events, as the WHATWG defines them: what a stream's bytes say, and where each event was complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """``data``: its data lines, joined by newlines; ``end``: how many bytes of the stream it was complete with."""

    name: bytes
    data: bytes
    end: int


def events(body: bytes) -> Iterator[Event]:
    """The events of a whole stream; its lines end with ``\\n``, ``\\r\\n`` or ``\\r``.

    Comments and fields other than ``data`` and ``event`` are left out, and events without data. An event at the end
    without its empty line counts too (the standard drops it; servers send it, and every client of theirs reads it).
    """
    end = len(_BOM) if body.startswith(_BOM) else 0
    name, lines = b"", list[bytes]()
    for line in (body[end:] if end else body).splitlines(keepends=True):
        end += len(line)
        line = line.rstrip(b"\r\n")
        if not line:
            if lines:
                yield Event(name, b"\n".join(lines), end)
            name, lines = b"", []
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            lines.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if lines:
        yield Event(name, b"\n".join(lines), end)
