"""Part of ``trace`` where the load came from another host: that one sends it again, and its moments come to this clock.

Questions for the time before, while and after it sends tell how far its clock is ahead, and what it gains. Each of its
requests is put on this host's clock by that, with what it may be wrong by at most.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.link import LinkEnd, RoundTrips
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.sampled_load import Sent
from inferbench_tasks.stages.senders.handles import ASK_EVERY, EVERY_S, TraceSender
from inferbench_tasks.stages.senders.messages import State, TraceQuestion, whole
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.timing.other_clock import OtherClock
from inferbench_tasks.timing.two_clocks import Exchange, drift_ppm
from inferbench_tasks.tracing.two_hosts import on_our_clock

#: Who is connected to, in what is said where that fails.
LISTENER = "what `load` started on its host to send it again for the trace"
#: Before a load is sent, and behind it.
_QUESTIONS, _QUESTIONS_S = 400, 2.0


class LedTrace:
    """``host``: which sends, by its name; ``me``: this one."""

    def __init__(self, near: NearSide, host: str, me: LinkEnd, ctx: Context) -> None:
        self._near, self.host, self.me, self._ctx = near, host, me, ctx

    def send(self, endpoint: Endpoint, seed: str | None, one_in: int) -> Sent:
        """The job's load to that server, sent there, on this host's clock.

        LoadError where it could not be sent, or where it is not known how the clocks lay; CancelledError.
        """
        before = self._asked()
        self._ask(TraceQuestion(do="send", endpoint=endpoint, seed=seed, one_in=one_in))
        meanwhile = self._until_sent()
        after = self._asked()
        sent = Sent.read(whole(lambda at: self._near.ask(_words(TraceQuestion(do="take", at=at)))))
        clock = OtherClock.told(before, meanwhile, after)
        if clock is None:
            raise LoadError(
                f"How the clocks of {self.host} and {self.me.host} lay while the load was sent is not known: what "
                "they told of each other contradicts itself"
            )
        asked = on_our_clock(sent.asked, clock)
        return replace(
            sent,
            asked=asked,
            epoch_offset_ns=epoch_offset()["offset_ns"],
            clock=_document(clock, before, meanwhile, after),
        )

    def _until_sent(self) -> list[Exchange]:
        """What was asked meanwhile."""
        asked: list[Exchange] = []
        while True:
            for _ in range(ASK_EVERY):
                time.sleep(EVERY_S)
                asked += self._near.exchanges(1, EVERY_S)
            if self._ctx.cancelled():
                raise CancelledError("Cancelled while the traced load's requests were sent")
            state = self._ask(TraceQuestion(do="state"))
            if state.problem:
                raise LoadError(f"{self.host}, which the load came from: {state.problem}")
            if state.stage == "sent":
                return asked

    def _asked(self) -> list[Exchange]:
        return self._near.exchanges(_QUESTIONS, _QUESTIONS_S)

    def _ask(self, question: TraceQuestion) -> State:
        return State.model_validate_json(self._near.ask(_words(question)))


@contextmanager
def led_trace(sender: TraceSender, ctx: Context) -> Iterator[LedTrace]:
    """Connected from entering to leaving, which ends whatever is sent. LoadError where nobody waits there, or where it
    is this machine.
    """
    if sender.reached is None:
        raise LoadError(f"Nothing waits on {sender.host} to send the load again: {sender.problem}")
    me = LinkEnd(
        host=socket.gethostname(),
        home=settings.home_id(ctx.data_dir),
        address="",
        boot_id=settings.boot_id(),
    )
    with NearSide(sender.reached.invitation, listener=LISTENER) as near:
        if near.far.same_machine(me):
            raise LoadError(f"The traced load came to the server's own host, {me.host}")
        yield LedTrace(near, sender.host, me, ctx)


def _words(question: TraceQuestion) -> str:
    return question.model_dump_json(exclude_defaults=True)


def _document(
    clock: OtherClock, before: Sequence[Exchange], meanwhile: Sequence[Exchange], after: Sequence[Exchange]
) -> dict[str, Any]:
    """As the result says it: {ahead_ms, gains_ppm, gains_between_ppm, round_trip}; of what it gains the least and the
    most that it may be, None where nobody can tell.
    """
    trips = RoundTrips.of([each.round_trip_ns for each in (*before, *meanwhile, *after)])
    between_ppm = drift_ppm(before, after)
    return {
        "ahead_ms": clock.ahead_ns / 1e6,
        "gains_ppm": clock.gains * 1e6,
        "gains_between_ppm": None if between_ppm is None else [*between_ppm],
        "round_trip": trips.model_dump(),
    }
