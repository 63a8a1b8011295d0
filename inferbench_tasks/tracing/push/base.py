"""What a collector says to a request of spans, whatever it is asked over (OTLP 1.9, "Failures")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: A collector that says nothing for so long is asked again.
TIMEOUT_S = 30.0
#: Without a batch taken for so long, a collector counts as away.
GIVE_UP_AFTER_S = 30.0
#: More of its own words is not shown.
_MOST_WORDS = 300


@dataclass(frozen=True)
class Taken:
    """It has the spans, less those ``rejected``; ``words``: why, or a warning."""

    rejected: int = 0
    words: str = ""


@dataclass(frozen=True)
class Later:
    """It does not take them now. ``after_s``: when it asks to be asked again, None where it does not say.

    ``unsure``: whether it may have taken them all the same, as where the answer was lost.
    """

    reason: str
    after_s: float | None = None
    unsure: bool = False


@dataclass(frozen=True)
class Refused:
    """It never takes them. ``all``: nor any others, as where the login is wrong. ``unsure``: as of ``Later``."""

    reason: str
    all: bool
    unsure: bool = False


Answer = Taken | Later | Refused
NO_ANSWER = Refused(
    "its answer is no ExportTraceServiceResponse: is it a collector of OTLP?", all=True, unsure=True
)


class Receiver(Protocol):
    """A collector at one address. ``address``: as it is shown."""

    address: str

    def send(self, content: bytes) -> Answer:
        """Ask once; ``content`` is an ``ExportTraceServiceRequest``."""

    def close(self) -> None:
        """End the connections."""


def shortened(words: str) -> str:
    """A collector's own words, on one line and not too many."""
    return " ".join(words.split())[:_MOST_WORDS]


def taken(answer: bytes) -> Answer:
    """What an ``ExportTraceServiceResponse`` says."""
    from google.protobuf.message import DecodeError

    from inferbench_tasks.protocols import otlp_proto

    try:
        partial = otlp_proto.message("ExportResponse").FromString(answer).partial_success
    except DecodeError:
        return NO_ANSWER
    return Taken(int(partial.rejected_spans), shortened(partial.error_message))
