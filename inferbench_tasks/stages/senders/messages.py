"""What is asked of what waits on a client host, in words, answered as JSON or as bytes: by the first of the client
hosts that share a load, and by ``trace``, which has a load sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from inferbench_tasks.contracts.handles import Endpoint, Handle
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.stages.senders.handles import OwnFacts

#: What is asked for by ``take``, beside spools: what was sent, what is known of the host, its monitors.
PART, ABOUT, MONITORS = "part", "about", "monitors"
#: And for ``trace``: what was sent, by the clock of who sent it.
TRACED = "traced"
#: What a file's bytes come in.
PIECE_BYTES = 1 << 19


class Question(Handle):
    """``prepare``: draw the schedule with so many ``shards`` of all hosts, whose digest has to be ``digest``, and be
    ready. ``start``: at ``start_ns`` of the asked host's CLOCK_MONOTONIC. ``state``: how far it is. ``stop``: send no
    more. ``close``: measure the link again, and tell the round trips from ``start_ns`` to ``end_ns`` of its clock.
    ``take``: the piece of ``name`` from ``at`` on.
    """

    do: Literal["prepare", "start", "state", "stop", "close", "take"]
    shards: int = 0
    digest: str = ""
    start_ns: int = 0
    end_ns: int = 0
    name: str = ""
    at: int = 0


class TraceQuestion(Handle):
    """``send``: the job's load once more, to ``endpoint``, one request in ``one_in`` of it in a trace of its own;
    without a ``seed`` none. ``state``: how far it is. ``take``: the piece of what was sent from ``at`` on.
    """

    do: Literal["send", "state", "take"]
    endpoint: Endpoint | None = None
    seed: str | None = None
    one_in: int = 1
    at: int = 0


class State(Handle):
    """How far the asked host is; ``problem``: why it can't go on; ``stopped``: why it ended its part early. Numbers
    are of its senders so far.
    """

    stage: Literal["waiting", "preparing", "ready", "sending", "sent", "closing", "closed"] = "waiting"
    problem: str = ""
    stopped: str = ""
    done: int = 0
    errors: int = 0
    in_flight: int = 0
    rate_rps: float = 0.0


class Part(Handle):
    """What was sent, on the asked host's clock; ``spools``: the sizes of its senders' records, by their files."""

    start_ns: int
    end_ns: int
    usages: tuple[ShardUsage, ...]
    explanations: dict[str, str]
    stopped_early: str | None
    quota_ns: int
    spools: dict[str, int]


class About(OwnFacts):
    """The asked host, and what its client can send (``loadgen.ceiling``)."""

    ceiling: dict[str, Any]


def piece(path: Path, at: int) -> bytes:
    """Of a file that is taken, from there on; nothing behind its end, and where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(PIECE_BYTES)
    except OSError:
        return b""


def whole(piece_at: Callable[[int], bytes]) -> bytes:
    """All pieces of a file, one after the other."""
    data = bytearray()
    while part := piece_at(len(data)):
        data += part
    return bytes(data)
