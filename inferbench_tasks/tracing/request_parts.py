"""The parts of a request by its moments, one behind the other: at its client, and in a server of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: (name, start_ns, end_ns, attributes)
Part = tuple[str, int, int, dict[str, int]]
#: What processors do, at the client or in the server, around the model: no runtime's time has it.
PRE_PROCESS, POST_PROCESS = "pre-process", "post-process"
#: At the client, where it has processors: the request waits until it is begun with.
BEGIN = "wait to begin"
#: At the client, where it has processors: the answer waits until others that came before it, or with it, are processed.
PROCESS = "wait to process"
#: At the client: the request waits for its turn or for a connection, its server is asked, the rest of the answer comes.
WAIT, FIRST_BYTE, LAST_BYTE = CLIENT_PARTS = ("wait to send", "to first byte", "to last byte")
#: Spans at the client that may have the id of a ``traceparent``; before the parts were spans the request itself had it.
ASKING = ("request", FIRST_BYTE, LAST_BYTE)
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


def client_parts(
    intended_ns: int,
    sent_ns: int,
    first_byte_ns: int,
    done_ns: int,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    answered_ns: int | None = None,
) -> list[Part]:
    """They add up to the request; its server works in the first one behind ``WAIT``.

    Of a client that does not tell when the first byte came (-1) there is no part up to it: from the send on it is one.
    ``before``, ``after``: what the client's own processors did, {started_ns, ended_ns, worked_ns by kind}; None where
    it has none. What is left of these parts is the writing of the request, and the reading of the answer, which was
    there at ``answered_ns``, else when it was begun with.
    """
    parts: list[Part] = []
    if before is not None:
        parts += [(BEGIN, intended_ns, before["started_ns"], {}), _processed(PRE_PROCESS, before)]
    if after is None:
        answered_ns = done_ns
    elif answered_ns is None:
        answered_ns = after["started_ns"]
    parts.append((WAIT, intended_ns if before is None else before["ended_ns"], sent_ns, {}))
    if first_byte_ns >= 0:
        parts.append((FIRST_BYTE, sent_ns, first_byte_ns, {}))
    parts.append((LAST_BYTE, sent_ns if first_byte_ns < 0 else first_byte_ns, answered_ns, {}))
    if after is not None:
        # To the end of the request: what its sender does behind the last processor is some microseconds.
        name, started_ns, _, worked_ns = _processed(POST_PROCESS, after)
        parts.append((PROCESS, answered_ns, started_ns, {}))
        parts.append((name, started_ns, done_ns, worked_ns))
    return parts


def server_parts(row: Mapping[str, Any]) -> list[Part]:
    """``row``: what the server tells of a request (``servers.tracing``). What nobody saw is left out.

    Processors in the server have theirs: before the request is queued, and between the moment at which the server goes
    on with it and the answer's encoding. Each says by kind how long the processor worked, ns; what is left is the
    request's wait for a thread.
    """
    parts: list[Part] = []
    before, after = row.get("before"), row.get("after")
    for name, begins, ends in _SERVER_PARTS:
        if name in row["unseen"]:
            continue
        if name == "queue" and before is not None:
            parts.append(_processed(PRE_PROCESS, before))
        end_ns = after["started_ns"] if name == "resume" and after is not None else row[ends]
        parts.append((name, row[begins], end_ns, {}))
        if name == "resume" and after is not None:
            parts.append(_processed(POST_PROCESS, after))
    return parts


def _processed(name: str, processed: Mapping[str, Any]) -> Part:
    worked_ns = {f"{kind}_ns": ns for kind, ns in processed["worked_ns"].items()}
    return name, processed["started_ns"], processed["ended_ns"], worked_ns
