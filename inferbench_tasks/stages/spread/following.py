"""Part of ``load``: replicas on hosts of their own, as the load's host follows them over connections while it lasts.

Before and after the load the network to each is measured. Meanwhile each is asked for its clock, by which its recording
can be put on this host's, and whether all is well there; whatever is not ends the load, with its name. At the end its
recording is brought here.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.contracts.link import LinkAround, LinkEnd
from inferbench_tasks.errors import CancelledError, LoadError, StageError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.around import AroundLoad, warnings
from inferbench_tasks.networks.links.following import Follow, trips_within
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.lease_elsewhere import LeaseElsewhere
from inferbench_tasks.stages.senders.handles import ASK_EVERY, EVERY_S
from inferbench_tasks.stages.spread.handles import FarReplica, Followed

if TYPE_CHECKING:
    from inferbench_tasks.timing.two_clocks import Exchange

log = logging.getLogger(__name__)

#: Who is connected to, in what is said where that fails.
_LISTENER = "what `replica` started beside its server"
_LOOK_S, _LOOKS = 0.5, 4


class _One:
    """One of them, from its connection to what was found of it."""

    def __init__(self, far: FarReplica) -> None:
        self.far = far
        self.near = NearSide(far.watch.invitation, listener=_LISTENER)
        self.follow = Follow(self.near, EVERY_S, ASK_EVERY)
        self.exchanges: list[Exchange] = []
        self.link: LinkAround | None = None
        self._around: AroundLoad | None = None

    def begin(self, me: LinkEnd) -> None:
        """Measure the link, and have its host watched."""
        self._around = AroundLoad(self.near, me)
        if reason := self.near.tell(wire.BEGIN):
            raise LoadError(f"The host of {self.far.name} is not watched: {reason}")
        self.follow.begin()

    def end(self) -> str:
        """Nothing more is asked; "" where all was well there, else what was not."""
        self.follow.end()
        try:
            if not (self.follow.failure or self.follow.lost):
                self.follow.failure = self.near.tell(wire.END)
            elif self.follow.failure:
                for _ in range(_LOOKS):  # of a host that goes away the server may be the first to be gone
                    self.near.tell(wire.STATE)
                    time.sleep(_LOOK_S)
        except LoadError as error:
            self.follow.lost = str(error)
        said = self.follow.failure or self.follow.lost
        return f"{self.far.name}: {said}" if said else ""

    def close(self, path: Path) -> None:
        """Measure the link again and bring its recording here."""
        assert self._around is not None
        self.link = self._around.ended()
        self.exchanges = [*self._around.before.exchanges, *self.follow.exchanges]
        data = bytearray()
        while piece := self.near.ask(str(len(data))):
            data += piece
        path.write_bytes(data)


class Following:
    """All of them, from entering to leaving; nothing where there are none.

    ``failure``: once it is left, what was wrong with one of them; "" of nothing.
    """

    def __init__(self, far: Sequence[FarReplica], folder: Path, ctx: Context) -> None:
        """``folder``: where their recordings come to."""
        self._ctx, self._folder = ctx, folder
        self._stack = ExitStack()
        self._each = [_One(one) for one in far]
        self._lease = LeaseElsewhere([one.replica.device_id for one in far], ctx)
        self.failure = ""

    def __enter__(self) -> Following:
        if not self._each:
            return self
        try:
            self._begin()
        except LoadError:
            self._lease.await_loss()
            raise
        return self

    def _begin(self) -> None:
        home = settings.home_id(self._ctx.data_dir)
        me = LinkEnd(host=socket.gethostname(), home=home, address="", boot_id=settings.boot_id())
        with ExitStack() as stack:
            for one in self._each:
                stack.enter_context(one.near)
                stack.callback(one.follow.end)
            for end, other in combinations([me, *(one.near.far for one in self._each)], 2):
                if end.same_machine(other):
                    raise StageError(f"Two replicas came to one host: {other.host}")
            for one in self._each:
                self._ctx.progress(0, None, f"measuring the network to {one.far.replica.host}")
                one.begin(me)
            self._stack = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None and self._each:
                self._end()

    @property
    def over(self) -> bool:
        """Whether the load can't go on for what happened with one of them."""
        return any(one.follow.over for one in self._each)

    def _end(self) -> None:
        reasons = [reason for one in self._each if (reason := one.end())]
        lost = any(one.follow.lost for one in self._each)
        if not reasons and not self._ctx.cancelled():
            try:
                for one in self._each:
                    one.close(self._folder / monitors_file(one.far))
            except LoadError as error:
                reasons, lost = [str(error)], True
        if lost:
            self._lease.await_loss()
        self.failure = "\n".join(reasons)

    def found(self, start_ns: int, end_ns: int) -> tuple[Followed, ...]:
        """What was found of each, by the measured window of this host's clock. CancelledError where nobody waited."""
        from inferbench_tasks.monitors import two_hosts

        found = []
        for one in self._each:
            if one.link is None:
                raise CancelledError("The run was cancelled before the recordings of other hosts were here")
            place = two_hosts.placed(one.exchanges, start_ns, end_ns)
            if place is not None and place.error_ns > two_hosts.WINDOW_ERROR_RATIO * (end_ns - start_ns):
                place = None
            found.append(
                Followed(
                    number=one.far.replica.number,
                    link=one.link,
                    meanwhile=trips_within(one.exchanges, start_ns, end_ns),
                    ahead_ns=place and place.offset_ns,
                    error_ns=place and place.error_ns,
                    monitors_path=str(self._folder / monitors_file(one.far)),
                )
            )
        return tuple(found)

    def figures(self, found: Sequence[Followed]) -> list[dict[str, Any]]:
        """What the certificate has of each: where it stood, and how far away."""
        return [
            {
                "number": of.number,
                "host": one.far.replica.host,
                "device_id": one.far.replica.device_id,
                "round_trip_before_ms": of.link.before.round_trip.p50_ms,
                "round_trip_meanwhile_ms": of.meanwhile and of.meanwhile.p50_ms,
                "clock_error_ms": None if of.error_ns is None else of.error_ns / 1e6,
            }
            for one, of in zip(self._each, found, strict=True)
        ]

    def warnings(self, found: Sequence[Followed]) -> list[str]:
        """What the figures should be read with, by the host's name."""
        told = []
        for one, of in zip(self._each, found, strict=True):
            quiet = [one.far.not_quiet] if one.far.not_quiet else []
            told += [f"{one.far.replica.host}: {words}" for words in (*warnings(of.link), *quiet)]
        return told


def monitors_file(far: FarReplica) -> str:
    """The recording of its host, on the clock of that one."""
    return f"replica-{far.replica.number}-monitors.parquet"
