"""Part of ``load`` where several client hosts share it: this one leads, and has each of the others send its part.

All begin at one instant, their records are put on this host's clock, and without all parts there is no load: whatever
one of them lacks, or says is wrong, ends every part.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import TracebackType

from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.controller import Applied, Controller, ends_early
from inferbench_tasks.loadgen.live import Snapshot, in_all
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.sender_hosts import SenderHost, part_of, too_far, usage_of
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.stages.senders.handles import FurtherHost, Standby
from inferbench_tasks.stages.senders.led_host import LedHost
from inferbench_tasks.stages.senders.messages import State

log = logging.getLogger(__name__)

#: From the order to the start, for each host that is told: it has to be there, and read by all of its senders.
_START_AFTER_NS = 500_000_000
#: Others are heard about a second late: of so few hearings the load so far would be mostly what this host did since.
_UNJUDGED_HEARINGS = 5


class Together:
    """All parts of one load but this host's own, over connections that stand from entering to leaving."""

    def __init__(self, standbys: Sequence[Standby], plan: LoadPlan) -> None:
        """``plan``: of the whole load."""
        self.me = socket.gethostname()
        self._whole, hosts = plan, 1 + len(standbys)
        self.plan = part_of(plan, 0, hosts)
        self._start_ns = self._end_ns = 0
        self._stack = ExitStack()
        self.led = [
            LedHost(standby, plan, number, hosts, name)
            for number, (standby, name) in enumerate(
                zip(standbys, names_of(self.me, standbys), strict=True), 1
            )
        ]
        self._hearings, self._heard = 0, [host.state for host in self.led]
        self._own = self._judged = Snapshot(0, 0, 0.0, None, None)

    def __enter__(self) -> Together:
        with ExitStack() as stack:
            for host in self.led:
                stack.enter_context(host)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def prepare(
        self, me: LinkEnd, cancelled: Callable[[], bool], tell: Callable[[str], None] = lambda text: None
    ) -> None:
        """Have the senders of each get ready, one host after the other, so that none streams into another's link.

        LoadError where one can't, or where two are one machine. Hosts whose clocks can't be known well enough for a
        fast server are told of: how fast it is nobody knows yet.
        """
        for one, other in combinations([me, *(host.end for host in self.led)], 2):
            if one.same_machine(other):
                raise LoadError(f"Two parts of the load came to one host: {other.host}")
        for host in self.led:
            tell(f"getting {host.name} ready, which sends a part of the load")
            host.prepare(cancelled)
        hosts = [SenderHost(self.me, self.plan.own)]
        hosts += [SenderHost(host.name, host.shards, host.misplaced_ms) for host in self.led]
        if told := too_far(hosts, Thresholds()):
            log.warning("%s", told)
            tell(told)

    @property
    def over(self) -> bool:
        """Whether the load can't go on for what happened on one of them."""
        return any(host.follow.over for host in self.led)

    def apply(self, controller: Controller) -> Applied:
        """Have all parts sent; what all sent, the other ones' records put on this host's clock."""
        try:
            own = controller.apply(self._starts, self._as_heard)
        finally:
            for host in self.led:
                host.end_follow()
        lost = [host.said(host.follow.lost) for host in self.led if host.follow.lost]
        failed = any(host.follow.failure for host in self.led)
        if lost or own.problem or (own.cancelled and not failed) or not own.start_ns:
            self._let_go()
            return replace(own, cancelled=False, problem="\n".join(lost)) if lost else own
        try:
            return self._joined(own)
        except LoadError as error:
            self._let_go()
            return replace(own, cancelled=False, problem=str(error))

    def _let_go(self) -> None:
        """There is no load: whoever still sends his part is not to send it to its end."""
        for host in self.led:
            host.let_go()

    def with_theirs(self, snapshot: Snapshot | None) -> Snapshot | None:
        """What is told of the load while it lasts: of all hosts; their latencies are known by each for itself."""
        return None if snapshot is None else self._of_all(snapshot)

    def _as_heard(self, own: Snapshot) -> Snapshot:
        """How all parts went when each host was last heard anew, by which the load may be ended.

        What this host did since nobody knows of the others: of what it had done then and a hearing before, which lie
        on either side of what they told, that counts with which a smaller share failed.
        """
        states: list[State] = [host.state for host in self.led]
        if all(now is not then for now, then in zip(states, self._heard, strict=True)):
            self._hearings += 1
            earlier, self._own, self._heard = self._own, own, states
            if self._hearings > _UNJUDGED_HEARINGS:
                self._judged = min(
                    map(self._of_all, (earlier, own)), key=lambda each: each.errors / max(1, each.done)
                )
        return self._judged

    def _of_all(self, own: Snapshot) -> Snapshot:
        """How all parts go, by what each host was last heard to say of its own."""
        states = [host.state for host in self.led]
        return replace(
            own,
            done=own.done + sum(state.done for state in states),
            errors=own.errors + sum(state.errors for state in states),
            rate_rps=own.rate_rps + sum(state.rate_rps for state in states),
            in_flight=own.in_flight + sum(state.in_flight for state in states),
            p50_ms=None,
            p99_ms=None,
            late_p99_ms=None,
        )

    def closed(self, folder: Path, window: tuple[int, int]) -> list[tuple[FurtherHost, dict[str, object]]]:
        """Of each, once it has measured its link again, what is known of it, and its client's ceiling.

        ``window``: that which is measured, by this host's clock. How their clocks lay is asked of all before the first
        one measures.
        """
        for host in self.led:
            host.ask_time()
            host.place(self._start_ns, self._end_ns)
        return [host.closed(folder, window) for host in self.led]

    @property
    def senders(self) -> tuple[SenderHost, ...]:
        """All hosts, as the certificate has them; this one first."""
        return SenderHost(self.me, self.plan.own), *(host.sender for host in self.led)

    def _starts(self) -> int:
        """All senders of all hosts are ready: when all begin, by this host's clock."""
        for host in self.led:
            host.ask_time()
            host.put_beside()
        after_ns = _START_AFTER_NS * len(self.led)
        self._start_ns = time.monotonic_ns() + after_ns
        for host in self.led:
            if not host.start(self._start_ns):
                raise LoadError(
                    f"{host.name} could not be told in time when to begin: the way there took longer than "
                    f"{after_ns / 1e6:.0f} ms"
                )
        for host in self.led:
            host.follow.begin()
        return self._start_ns

    def _joined(self, own: Applied) -> Applied:
        """All parts as one; LoadError where one of them is not all there."""
        if own.stopped_early or own.cancelled:  # for one part ended early: so do all
            for host in self.led:
                host.stop()
        last_ns = self._start_ns + max(segment.end_ns for segment in self._whole.segments)
        parts = [(host, host.part(own.start_ns, last_ns)) for host in self.led]
        spools = [path for host, part in parts for path in host.records(part)]
        ends_ns = [part.end_ns - host.ahead_ns for host, part in parts]
        quotas_ns = [part.quota_ns - host.ahead_ns for host, part in parts if part.quota_ns >= 0]
        quotas_ns += [own.quota_ns] if own.quota_ns >= 0 else []
        theirs = [host.said(part.stopped_early) for host, part in parts if part.stopped_early]
        stopped = own.stopped_early or next(iter(theirs), None)
        if stopped is None:  # what was last heard of each while it sent is not all that it sent
            too_many = ends_early(self._whole, in_all((*own.spools, *spools)))
            stopped = f"{too_many}, as its records showed once all had been sent" if too_many else None
        explanations: dict[str, str] = {}
        for _, part in reversed(parts):
            explanations |= part.explanations
        self._end_ns = min(own.end_ns, *ends_ns)
        return replace(
            own,
            end_ns=self._end_ns,
            spools=(*own.spools, *spools),
            usages=(
                *(usage_of(usage, self.me, 0) for usage in own.usages),
                *(usage_of(usage, host.name, host.ahead_ns) for host, part in parts for usage in part.usages),
            ),
            explanations=explanations | own.explanations,
            stopped_early=stopped,
            cancelled=own.cancelled and not stopped,
            quota_ns=min(quotas_ns, default=-1),
        )


def names_of(me: str, standbys: Sequence[Standby]) -> list[str]:
    """The hosts that wait, each by a name that no other has: of several of one name also by their addresses."""
    known = [me, *(standby.host for standby in standbys)]
    return [
        standby.host if known.count(standby.host) == 1 else f"{standby.host} ({standby.reached.address})"
        for standby in standbys
    ]
