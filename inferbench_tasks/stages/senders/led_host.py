"""Part of ``load`` where several client hosts share it: one of those that the first one leads, as that one has it.

What waits there was started by a ``standby``. It gets ready, begins at an instant of the leading host's clock that is
put on its own by exchanges just before, and hands over its records, which are put back by the same number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.sender_hosts import SenderHost, part_of, put_back, schedule_digest
from inferbench_tasks.monitors.two_hosts import misplaced_ns
from inferbench_tasks.networks.links.following import Follow
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.senders.handles import (
    ASK_EVERY,
    EVERY_S,
    FurtherHost,
    Standby,
    monitors_file,
)
from inferbench_tasks.stages.senders.led_part import LEAST_NOTICE_NS
from inferbench_tasks.stages.senders.messages import (
    ABOUT,
    MONITORS,
    PART,
    About,
    Part,
    Question,
    State,
    whole,
)
from inferbench_tasks.timing.two_clocks import Exchange, bounds_at

#: Who is connected to, in what is said where that fails.
LISTENER = "what `standby` started on the %s client host"
#: Exchanges just before the start, which put it on the other clock; and again once all have sent.
_QUESTIONS, _QUESTIONS_S = 400, 2.0
#: Once it is ready: how well its clock will be known.
_FIRST_QUESTIONS, _FIRST_S = 20, 0.5
#: Getting ready takes a measurement of what its client can send, and of its link.
_READY_S, _CLOSED_S = 300.0, 60.0
#: What its senders need to end once everything they wait for has ended, beside a request's timeout.
_END_GRACE_S = 30.0
_POLL_S = 0.1


class LedHost:
    """Its part of one load, over one connection that stands from entering to leaving."""

    def __init__(self, standby: Standby, plan: LoadPlan, number: int, hosts: int, name: str) -> None:
        """``plan``: of the whole load; ``number``: among so many ``hosts``, of which 0 leads; ``name``: no other's."""
        self.name, self._number = name, number
        self._standby, self._whole = standby, plan
        self.shards = part_of(plan, number, hosts).own
        self._cancelled: Callable[[], bool] = lambda: False
        self._near = NearSide(standby.reached.invitation, listener=LISTENER % ORDINALS[number - 1])
        self._exchanges: list[Exchange] = []
        self.ahead_ns, self._error_ns = 0, 0
        self.state = State()
        self.follow = Follow(self._near, EVERY_S, ASK_EVERY, self._wrong)

    def __enter__(self) -> LedHost:
        self._near.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.let_go()

    @property
    def end(self) -> LinkEnd:
        """What it is."""
        return self._near.far

    @property
    def sender(self) -> SenderHost:
        """As the certificate has it, once ``placed``."""
        return SenderHost(self.name, self.shards, self._error_ns / 1e6)

    @property
    def misplaced_ms(self) -> float:
        """As ``sender`` will have it, by the exchanges so far; 0 where these tell nothing."""
        bounds = bounds_at(self._exchanges, self._exchanges[-1].received_ns) if self._exchanges else None
        return bounds.error_ns / 1e6 if bounds else 0.0

    def prepare(self, cancelled: Callable[[], bool]) -> None:
        """Have its senders get ready; LoadError where they can't."""
        self._cancelled = cancelled
        self._ask(Question(do="prepare", shards=self._whole.shards, digest=schedule_digest(self._whole)))
        self._until("ready", _READY_S)
        self._exchanges += self._near.exchanges(_FIRST_QUESTIONS, _FIRST_S)

    def ask_time(self) -> None:
        """How its clock lies to this host's, which ``put_beside`` and ``place`` go by."""
        self._exchanges += self._near.exchanges(_QUESTIONS, _QUESTIONS_S)

    def put_beside(self) -> None:
        """The one number by which moments of this host and of that one are the other's, from now on."""
        bounds = bounds_at(self._exchanges, self._exchanges[-1].received_ns)
        if bounds is None:
            raise LoadError(
                f"The clocks of this host and {self.name} contradict themselves: none can start by them"
            )
        self.ahead_ns = round(bounds.middle_ns)

    def start(self, start_ns: int) -> bool:
        """Have it begin at that moment of this host's clock; whether it could be told in time."""
        refused = self._ask(Question(do="start", start_ns=start_ns + self.ahead_ns))
        return not refused and start_ns - time.monotonic_ns() >= LEAST_NOTICE_NS

    def stop(self) -> None:
        """Have it send no more; harmless once it has ended."""
        self._ask(Question(do="stop"))

    def end_follow(self) -> None:
        """Nothing is asked in between any more."""
        self.follow.end()
        self._exchanges += self.follow.exchanges

    def let_go(self) -> None:
        """End the connection, and with it whatever it still sends: nothing of it is asked for any more."""
        self.follow.end()
        self._near.__exit__(None, None, None)

    def part(self, start_ns: int, last_ns: int) -> Part:
        """What it sent, once it has, on its own clock; LoadError where it began at another moment, or lacks records."""
        to_come_ns = max(0, last_ns - time.monotonic_ns()) + self._whole.timeout_ns
        self._until("sent", to_come_ns / 1e9 + _END_GRACE_S)
        part = Part.model_validate_json(self._take(PART))
        if part.start_ns != start_ns + self.ahead_ns:
            raise LoadError(self.said("it began at another instant than it was told"))
        if set(part.spools) != {self._whole.spool_path(shard).name for shard in self.shards}:
            raise LoadError(self.said("the records of its senders are not those of its part"))
        return part

    def records(self, part: Part) -> list[Path]:
        """The records of its senders, here and on this host's clock."""
        spools = []
        for path in map(self._whole.spool_path, self.shards):
            size, data = part.spools[path.name], self._take(path.name)
            if len(data) != size:
                raise LoadError(self.said(f"{len(data)} of {size} bytes of its records came here"))
            path.write_bytes(data)
            put_back(path, self.ahead_ns)
            spools.append(path)
        return spools

    def place(self, start_ns: int, end_ns: int) -> None:
        """How far from this host's clock its moments may have been over the load; LoadError where nobody can tell."""
        error_ns = misplaced_ns(self._exchanges, self.ahead_ns, start_ns, end_ns)
        if error_ns is None:
            raise LoadError(
                f"The clocks of the client hosts contradicted themselves while all sent: how the part of "
                f"{self.name} lay beside the others is not known"
            )
        self._error_ns = error_ns

    def closed(self, folder: Path, window: tuple[int, int]) -> tuple[FurtherHost, dict[str, object]]:
        """Have it measure its link again; what is known of it, and its client's ceiling.

        ``window``: that which is measured, by this host's clock.
        """
        start_ns, end_ns = (at_ns + self.ahead_ns for at_ns in window)
        self._ask(Question(do="close", start_ns=start_ns, end_ns=end_ns))
        self._until("closed", _CLOSED_S)
        about = About.model_validate_json(self._take(ABOUT))
        monitors = folder / monitors_file(self._number)
        monitors.write_bytes(self._take(MONITORS))
        host = FurtherHost(
            **about.facts,
            host=self.name,
            monitors_path=str(monitors),
            ahead_ns=self.ahead_ns,
            error_ns=self._error_ns,
            shards=tuple(self.shards),
            quiet=self._standby.quiet,
            not_quiet=self._standby.not_quiet,
        )
        return host, about.ceiling

    def said(self, words: str) -> str:
        """What it says, or what is said of it, with its name."""
        return f"The {ORDINALS[self._number - 1]} client host, {self.name}: {words}"

    def _wrong(self, near: NearSide) -> str:
        """Asked while all send: why it sends no more though it should, else ""."""
        state = self._look()
        return state.problem or state.stopped

    def _until(self, stage: str, limit_s: float) -> None:
        """LoadError where it does not come that far, with what it says."""
        deadline_s = time.monotonic() + limit_s
        while (state := self._look()).stage != stage:
            if state.problem:
                raise LoadError(self.said(state.problem))
            if self._cancelled():
                raise CancelledError("The load was cancelled")
            if time.monotonic() > deadline_s:
                raise LoadError(self.said(f"it was {state.stage} still after {limit_s:.0f} s, not {stage}"))
            self._exchanges += self._near.exchanges(1, _POLL_S)
            time.sleep(_POLL_S)
        if state.problem:
            raise LoadError(self.said(state.problem))

    def _look(self) -> State:
        self.state = State.model_validate_json(self._ask(Question(do="state")))
        return self.state

    def _take(self, name: str) -> bytes:
        """The whole of a file there."""
        return whole(lambda at: self._ask(Question(do="take", name=name, at=at)))

    def _ask(self, question: Question) -> bytes:
        return self._near.ask(question.model_dump_json(exclude_defaults=True))
