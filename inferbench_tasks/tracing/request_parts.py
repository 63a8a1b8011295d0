"""The parts of a request by its moments, one behind the other: at its client, and in a server of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: (name, start_ns, end_ns)
Part = tuple[str, int, int]
#: At the client: the request waits for its turn or for a connection, its server is asked, the rest of the answer comes.
WAIT, FIRST_BYTE, LAST_BYTE = CLIENT_PARTS = ("wait to send", "to first byte", "to last byte")
#: In the server: name, and between which of its moments.
_SERVER_PARTS = (
    ("read", "started_ns", "received_ns"),
    ("decode", "received_ns", "decoded_ns"),
    ("queue", "enqueued_ns", "taken_ns"),
    ("join", "taken_ns", "joined_ns"),
    ("inference", "joined_ns", "inferred_ns"),
    ("split", "inferred_ns", "split_ns"),
    ("resume", "split_ns", "resumed_ns"),
    ("encode", "resumed_ns", "encoded_ns"),
)


def client_parts(intended_ns: int, sent_ns: int, first_byte_ns: int, done_ns: int) -> list[Part]:
    """They add up to the request; the second is the one in which its server works.

    Of a client that does not tell when the first byte came (-1) there is no part up to it: from the send on it is one.
    """
    wait = (WAIT, intended_ns, sent_ns)
    if first_byte_ns < 0:
        return [wait, (LAST_BYTE, sent_ns, done_ns)]
    return [wait, (FIRST_BYTE, sent_ns, first_byte_ns), (LAST_BYTE, first_byte_ns, done_ns)]


def server_parts(row: Mapping[str, Any]) -> list[Part]:
    """``row``: what the server tells of a request (``servers.tracing``). What nobody saw is left out."""
    return [
        (name, row[begins], row[ends]) for name, begins, ends in _SERVER_PARTS if name not in row["unseen"]
    ]
