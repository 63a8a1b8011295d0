"""Ids of stored files that say when their storing began, by PerfDB's clock: hosts' clocks need not agree."""

from __future__ import annotations

from datetime import datetime

from bson import ObjectId

#: Of an id the first bytes are its second, the others tell it from all others of that second.
_SECOND_BYTES = 4


def new_file_id(at: datetime) -> ObjectId:
    """A new id, dated ``at`` (UTC, with its zone) and not by this host's clock."""
    return ObjectId(least_file_id(at).binary[:_SECOND_BYTES] + ObjectId().binary[_SECOND_BYTES:])


def least_file_id(at: datetime) -> ObjectId:
    """What the ids of all files are less than whose storing began before that second."""
    return ObjectId.from_datetime(at)
