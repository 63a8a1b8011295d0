"""Part of ``load`` where two client hosts share it: this one leads, and has the other one send its part.

What waits there was started by ``standby``. It gets ready, begins at an instant of this host's clock that is put on its
own by exchanges just before, and hands over its records, which are put back by the same number. Without all of its part
there is no load: whatever it lacks, or says is wrong, ends this host's part too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.loadgen.controller import Applied, Controller
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.sender_hosts import SenderHost, part_of, put_back, schedule_digest, usage_of
from inferbench_tasks.monitors.two_hosts import misplaced_ns
from inferbench_tasks.networks.links.following import Follow
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.senders.handles import ASK_EVERY, EVERY_S, SECOND_FILE, SecondHost, Standby
from inferbench_tasks.stages.senders.messages import ABOUT, MONITORS, PART, About, Part, Question, State
from inferbench_tasks.stages.senders.second_part import LEAST_NOTICE_NS
from inferbench_tasks.timing.two_clocks import Exchange, bounds_at

#: Who is connected to, in what is said where that fails.
LISTENER = "what `standby` started on the second client host"
#: Exchanges just before the start, which put it on the other clock; and again once both have sent.
_QUESTIONS, _QUESTIONS_S = 400, 2.0
#: From the order to the start: it has to be there, and read by all senders of both hosts.
_START_AFTER_NS = 500_000_000
#: Getting ready takes a measurement of what its client can send, and of its link.
_READY_S, _CLOSED_S = 300.0, 60.0
#: What its senders need to end once everything they wait for has ended, beside a request's timeout.
_END_GRACE_S = 30.0
_POLL_S = 0.1


class SecondClient:
    """The second host's part of one load, over one connection that stands from entering to leaving."""

    def __init__(self, standby: Standby, plan: LoadPlan, hosts: int) -> None:
        """``plan``: of the whole load."""
        self.me = socket.gethostname()
        # Two hosts of one name are told apart by their addresses.
        self.host = standby.host if standby.host != self.me else f"{standby.host} ({standby.reached.address})"
        self._standby, self._whole, self._hosts = standby, plan, hosts
        self._cancelled: Callable[[], bool] = lambda: False
        self.plan = part_of(plan, 0, hosts)
        self._near = NearSide(standby.reached.invitation, listener=LISTENER)
        self._exchanges: list[Exchange] = []
        self._ahead_ns = self._start_ns = self._end_ns = 0
        self._state = State()
        self._follow = Follow(self._near, EVERY_S, ASK_EVERY, self._wrong)

    def __enter__(self) -> SecondClient:
        self._near.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._follow.end()
        self._near.__exit__(kind, error, trace)

    def prepare(self, me: LinkEnd, cancelled: Callable[[], bool]) -> None:
        """Have its senders get ready; LoadError where they can't, or where it is this very machine."""
        self._cancelled = cancelled
        if self._near.far.same_machine(me):
            raise LoadError(f"Both parts of the load came to one host: {me.host}")
        self._ask(Question(do="prepare", shards=self._whole.shards, digest=schedule_digest(self._whole)))
        self._until("ready", _READY_S)

    @property
    def over(self) -> bool:
        """Whether the load can't go on for what happened there."""
        return self._follow.over

    def apply(self, controller: Controller) -> Applied:
        """Have both parts sent; what both sent, the other one's records put on this host's clock."""
        try:
            own = controller.apply(self._starts)
        finally:
            self._follow.end()
        self._exchanges += self._follow.exchanges
        if self._follow.lost:
            return replace(own, cancelled=False, problem=self._said(self._follow.lost))
        if own.problem or (own.cancelled and not self._follow.failure) or not own.start_ns:
            return own
        try:
            return self._joined(own)
        except LoadError as error:
            return replace(own, cancelled=False, problem=str(error))

    def with_theirs(self, snapshot: Snapshot | None) -> Snapshot | None:
        """What is told of the load while it lasts: of both hosts; their latencies are known by each for itself."""
        if snapshot is None:
            return None
        theirs = self._state
        return replace(
            snapshot,
            done=snapshot.done + theirs.done,
            errors=snapshot.errors + theirs.errors,
            rate_rps=snapshot.rate_rps + theirs.rate_rps,
            in_flight=snapshot.in_flight + theirs.in_flight,
            p50_ms=None,
            p99_ms=None,
            late_p99_ms=None,
        )

    def closed(self, folder: Path) -> tuple[SecondHost, dict[str, object]]:
        """Have it measure its link again; what is known of it, and its client's ceiling."""
        self._exchanges += self._near.exchanges(_QUESTIONS, _QUESTIONS_S)
        error_ns = misplaced_ns(self._exchanges, self._ahead_ns, self._start_ns, self._end_ns)
        if error_ns is None:
            raise LoadError(
                f"The clocks of the two client hosts contradicted themselves while both sent: how the part of "
                f"{self.host} lay beside the other one is not known"
            )
        self._ask(Question(do="close"))
        self._until("closed", _CLOSED_S)
        about = About.model_validate_json(self._take(ABOUT))
        monitors = folder / SECOND_FILE
        monitors.write_bytes(self._take(MONITORS))
        second = SecondHost(
            **about.facts,
            host=self.host,
            monitors_path=str(monitors),
            ahead_ns=self._ahead_ns,
            error_ns=error_ns,
            shards=tuple(part_of(self._whole, 1, self._hosts).own),
            quiet=self._standby.quiet,
            not_quiet=self._standby.not_quiet,
        )
        return second, about.ceiling

    def senders(self, second: SecondHost) -> tuple[SenderHost, SenderHost]:
        """Both hosts, as the certificate has them."""
        theirs = part_of(self._whole, 1, self._hosts).own
        return SenderHost(self.me, self.plan.own), SenderHost(self.host, theirs, second.error_ns / 1e6)

    def _starts(self) -> int:
        """All senders of this host are ready, and the other one's: when both begin, by this host's clock."""
        self._exchanges += self._near.exchanges(_QUESTIONS, _QUESTIONS_S)
        bounds = bounds_at(self._exchanges, self._exchanges[-1].received_ns)
        if bounds is None:
            raise LoadError(
                f"The clocks of this host and {self.host} contradict themselves: none can start by them"
            )
        self._ahead_ns = round(bounds.middle_ns)
        self._start_ns = time.monotonic_ns() + _START_AFTER_NS
        refused = self._ask(Question(do="start", start_ns=self._start_ns + self._ahead_ns))
        if refused or self._start_ns - time.monotonic_ns() < LEAST_NOTICE_NS:
            raise LoadError(
                f"{self.host} could not be told in time when to begin: the way there took longer than "
                f"{_START_AFTER_NS / 1e6:.0f} ms"
            )
        self._follow.begin()
        return self._start_ns

    def _joined(self, own: Applied) -> Applied:
        if own.stopped_early:
            self._ask(Question(do="stop"))
        last_ns = self._start_ns + max(segment.end_ns for segment in self._whole.segments)
        to_come_ns = max(0, last_ns - time.monotonic_ns()) + self._whole.timeout_ns
        self._until("sent", to_come_ns / 1e9 + _END_GRACE_S)
        part = Part.model_validate_json(self._take(PART))
        if part.start_ns != own.start_ns + self._ahead_ns:
            raise LoadError(self._said("it began at another instant than it was told"))
        spools = []
        theirs = part_of(self._whole, 1, self._hosts).own
        if set(part.spools) != {self.plan.spool_path(shard).name for shard in theirs}:
            raise LoadError(self._said("the records of its senders are not those of its part"))
        for path in map(self.plan.spool_path, theirs):
            size, data = part.spools[path.name], self._take(path.name)
            if len(data) != size:
                raise LoadError(self._said(f"{len(data)} of {size} bytes of its records came here"))
            path.write_bytes(data)
            put_back(path, self._ahead_ns)
            spools.append(path)
        end_ns = min(own.end_ns, part.end_ns - self._ahead_ns)
        quotas = [own.quota_ns, part.quota_ns - self._ahead_ns if part.quota_ns >= 0 else -1]
        stopped = own.stopped_early or (part.stopped_early and self._said(part.stopped_early))
        self._end_ns = end_ns
        return replace(
            own,
            end_ns=end_ns,
            spools=(*own.spools, *spools),
            usages=(
                *(usage_of(usage, self.me, 0) for usage in own.usages),
                *(usage_of(usage, self.host, self._ahead_ns) for usage in part.usages),
            ),
            explanations={**part.explanations, **own.explanations},
            stopped_early=stopped,
            cancelled=own.cancelled and not stopped,
            quota_ns=min((quota for quota in quotas if quota >= 0), default=-1),
        )

    def _wrong(self, near: NearSide) -> str:
        """Asked while both send: why it sends no more though it should, else ""."""
        state = self._look()
        return state.problem or state.stopped

    def _until(self, stage: str, limit_s: float) -> None:
        """LoadError where it does not come that far, with what it says."""
        deadline_s = time.monotonic() + limit_s
        while (state := self._look()).stage != stage:
            if state.problem:
                raise LoadError(self._said(state.problem))
            if self._cancelled():
                raise CancelledError("The load was cancelled")
            if time.monotonic() > deadline_s:
                raise LoadError(self._said(f"it was {state.stage} still after {limit_s:.0f} s, not {stage}"))
            self._exchanges += self._near.exchanges(1, _POLL_S)
            time.sleep(_POLL_S)
        if state.problem:
            raise LoadError(self._said(state.problem))

    def _look(self) -> State:
        self._state = State.model_validate_json(self._ask(Question(do="state")))
        return self._state

    def _take(self, name: str) -> bytes:
        """The whole of a file there."""
        data = bytearray()
        while piece := self._ask(Question(do="take", name=name, at=len(data))):
            data += piece
        return bytes(data)

    def _ask(self, question: Question) -> bytes:
        return self._near.ask(question.model_dump_json(exclude_defaults=True))

    def _said(self, words: str) -> str:
        return f"The second client host, {self.host}: {words}"
