"""The columns of a request's record, each described once: what senders pack, numpy reads and Parquet keeps follow.

Rows are packed without gaps, little-endian, in this order; a shard's number stands in its spool's header instead.
What the file makes of them is ``records.schema_of``: a sender, which writes none, needs no Arrow.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from inferbench_tasks.protocols.spans import SERVER_SPANS

PHASES = ("warmup", "measure", "cooldown")
WARMUP, MEASURE, COOLDOWN = range(3)
#: The status of a request that was answered as it should be; every other status is the kind of an error.
OK = "ok"
#: Never sent: the sender gave it up (too many in flight, the load ended).
DROPPED = "dropped"

#: numpy's name of a signed integer -> that of ``struct``.
_PACKED = {"i1": "b", "i2": "h", "i4": "i", "i8": "q"}


@dataclass(frozen=True)
class Column:
    """A signed integer of every request.

    ``type``: its width in a row. ``names``: it numbers names (phases, statuses); the file has the names. ``side``:
    whose time of a part of a request it is, ns, and ``span`` of which part; such columns are there in all rows of a
    shard or in none.
    """

    name: str
    type: Literal["i1", "i2", "i4", "i8"] = "i8"
    names: bool = False
    in_row: bool = True
    side: Literal["server", "client"] | None = None
    span: str = ""

    @property
    def stored(self) -> str:
        """Its type in the file: names are numbered in 16 bits there."""
        return "i2" if self.names else self.type


def _time_of(side: Literal["server", "client"], span: str) -> Column:
    return Column(f"{side}_{span}_ns", side=side, span=span)


#: Times are CLOCK_MONOTONIC in ns; -1 means that it did not happen. ``done_ns`` is the end of a failed
#: request too (its timeout, its reset); -1 only where the load ended before the request did.
_EVERY = (
    Column("request_id"),
    Column("shard", "i2", in_row=False),
    Column("phase", "i1", names=True),
    Column("intended_ns"),
    Column("sent_ns"),
    Column("first_byte_ns"),
    Column("done_ns"),
    Column("status", "i2", names=True),
    Column("bytes_sent"),
    Column("bytes_received"),
    Column("sample_index", "i4"),
    Column("batch_size", "i2"),
)
#: What the server says of a request's way through it, where it says something; and what the client itself did to
#: a request before it was sent and to its answer, see ``clients.processing``. In the file or not.
_SPANS = (
    *(_time_of("server", span) for span in SERVER_SPANS),
    *(_time_of("client", span) for span in ("preprocess", "postprocess")),
)


def columns_of(*, spans: bool) -> tuple[Column, ...]:
    """All of a record, in the order of row and file."""
    return (*_EVERY, *_SPANS) if spans else _EVERY


def spans_of(side: Literal["server", "client"]) -> dict[str, str]:
    """The part that each time of the server or the client is of -> its column."""
    return {column.span: column.name for column in _SPANS if column.side == side}


def row_dtype(*, spans: bool) -> np.dtype[Any]:
    """The structured type of a packed row."""
    return np.dtype([(c.name, f"<{c.type}") for c in columns_of(spans=spans) if c.in_row])


def row_packer() -> struct.Struct:
    """Packs the columns that every row has."""
    return struct.Struct("<" + "".join(_PACKED[column.type] for column in _EVERY if column.in_row))


def span_packer() -> struct.Struct:
    """Packs the spans, right behind them."""
    return struct.Struct("<" + "".join(_PACKED[column.type] for column in _SPANS))
