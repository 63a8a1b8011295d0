"""Spans to a collector: batch by batch, again where it asks for it, and what became of each span."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from inferbench_tasks.tracing.forms.otlp_protobuf import Batch, batches
from inferbench_tasks.tracing.push.base import GIVE_UP_AFTER_S, Later, Receiver, Refused, Taken
from inferbench_tasks.tracing.push.target import Target

#: Of one request: far below the 4 MiB that receivers of gRPC take unless told otherwise.
MOST_SPANS, MOST_BYTES = 2_000, 1 << 20
#: A collector may say something else each time.
_MOST_SAID = 10
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0

#: ``done, total, text``: spans that are dealt with, and what goes on where that is not plain.
Telling = Callable[[int, int, str], None]


def silent(done: int, total: int, text: str) -> None:
    """Tell nobody."""


@dataclass
class Pushed:
    """Each of ``spans`` is one of ``accepted``, ``rejected``, ``unknown`` and ``not_sent``.

    ``unknown``: sent, and no answer told what became of them. ``repeated``: of the accepted ones those that were sent
    again after an answer was lost: a collector that does not look at ids may have them twice. ``words``: of the
    collector or about it -> how often.
    """

    address: str
    spans: int
    accepted: int = 0
    rejected: int = 0
    unknown: int = 0
    repeated: int = 0
    batches: int = 0
    tries: int = 0
    words: Counter[str] = field(default_factory=Counter)

    @property
    def not_sent(self) -> int:
        """What was never asked of it, or was told to wait until it was given up."""
        return self.spans - self.accepted - self.rejected - self.unknown

    @property
    def complete(self) -> bool:
        """Whether it has all spans."""
        return self.accepted == self.spans

    def __str__(self) -> str:
        parts = [f"{self.accepted:,} of {self.spans:,} spans taken by {self.address}"]
        parts += [
            f"{count:,} {what}"
            for count, what in (
                (self.rejected, "rejected"),
                (self.unknown, "sent without an answer"),
                (self.not_sent, "not sent"),
                (self.repeated, "sent again after an answer was lost, and perhaps there twice"),
            )
            if count
        ]
        return "\n  ".join(["; ".join(parts), *self.said()])

    def said(self) -> list[str]:
        """The most frequent of ``words``, each with how often."""
        return [
            f"{words} ({count:,} times)" if count > 1 else words
            for words, count in self.words.most_common(_MOST_SAID)
        ]


def receiver_of(target: Target) -> Receiver:
    """Who speaks the target's protocol; MissingExtraError where gRPC's library is not there."""
    if target.over == "http":
        from inferbench_tasks.tracing.push.http import HttpReceiver

        return HttpReceiver(target)
    from inferbench_tasks.tracing.push.grpc import GrpcReceiver

    return GrpcReceiver(target)


def send_table(
    table: pa.Table,
    about: dict[str, str],
    target: Target,
    *,
    give_up_after_s: float = GIVE_UP_AFTER_S,
    telling: Telling = silent,
) -> Pushed:
    """Send the spans of a stored table; ``about``: attributes of their resource. InputError as of ``batches``."""
    receiver = receiver_of(target)
    try:
        parts = batches(table, about, MOST_SPANS, MOST_BYTES)
        return push(parts, table.num_rows, receiver, give_up_after_s=give_up_after_s, telling=telling)
    finally:
        receiver.close()


def push(
    parts: Iterable[Batch],
    spans: int,
    receiver: Receiver,
    *,
    give_up_after_s: float = GIVE_UP_AFTER_S,
    telling: Telling = silent,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Pushed:
    """Send them, ``spans`` in all, one after the other; what became of them. Raises nothing of the collector.

    What may be sent again is: when the collector says, else after waits that double, each up to half longer so that
    many senders do not come at once (OTLP, "exponential backoff with jitter").
    """
    pushed = Pushed(receiver.address, spans)
    for batch in parts:
        if not batch.spans:
            continue
        if not _one(batch, pushed, receiver, give_up_after_s, telling, sleep, clock):
            break
        telling(pushed.accepted + pushed.rejected, spans, "")
    return pushed


def _one(
    batch: Batch,
    pushed: Pushed,
    receiver: Receiver,
    give_up_after_s: float,
    telling: Telling,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> bool:
    """Send one batch until it is dealt with; whether to go on with the next."""
    began_s, unsure, wait_s = clock(), False, _FIRST_WAIT_S
    pushed.batches += 1
    while True:
        pushed.tries += 1
        answer = receiver.send(batch.content)
        if isinstance(answer, Taken):
            rejected = min(max(answer.rejected, 0), batch.spans)
            pushed.accepted += batch.spans - rejected
            pushed.rejected += rejected
            pushed.repeated += batch.spans - rejected if unsure else 0
            if answer.words or rejected:
                pushed.words[answer.words or "spans were rejected without a reason"] += 1
            return True
        pushed.words[answer.reason] += 1
        unsure = unsure or answer.unsure
        if isinstance(answer, Refused):
            if unsure:
                pushed.unknown += batch.spans
            else:
                pushed.rejected += batch.spans
            return not answer.all
        delay_s = _delay_s(answer, wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        if clock() - began_s + delay_s > give_up_after_s:
            pushed.words[_given_up(answer, give_up_after_s)] += 1
            pushed.unknown += batch.spans if unsure else 0
            return False
        telling(pushed.accepted + pushed.rejected, pushed.spans, f"{answer.reason}; again in {delay_s:.1f} s")
        sleep(delay_s)


def _delay_s(answer: Later, wait_s: float) -> float:
    return answer.after_s if answer.after_s is not None else wait_s * random.uniform(1.0, 1.5)


def _given_up(answer: Later, give_up_after_s: float) -> str:
    if answer.after_s is not None and answer.after_s > give_up_after_s:
        return f"given up: it asks for {answer.after_s:g} s of patience, and there are {give_up_after_s:g}"
    return f"given up after {give_up_after_s:g} s"
