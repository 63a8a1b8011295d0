"""What a host that sends does for itself, whether it leads or not: its monitors, and its way to the server's host.

The way is measured before and after the load; while the load lasts exchanges tell how the two clocks lie, and that
somebody is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.contracts.link import LinkAround, LinkEnd
from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.links.around import AroundLoad
from inferbench_tasks.networks.links.following import Ask, Follow, followed, trips_within
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.stages.senders.handles import ASK_EVERY, EVERY_S, MOST_EXCHANGES, OwnFacts
from inferbench_tasks.timing.two_clocks import Exchange, thinned

if TYPE_CHECKING:
    from inferbench_tasks.monitors.two_hosts import Placed


class OwnSide:
    """Of a host that has connected to what stands beside the server."""

    def __init__(self, near: NearSide, me: LinkEnd) -> None:
        self.near, self._me = near, me
        self._around: AroundLoad | None = None
        self._follow: Follow | None = None
        self._link: LinkAround | None = None

    def measure(self) -> None:
        """The link before the load."""
        self._around = AroundLoad(self.near, self._me)

    @contextmanager
    def recorded(self, monitors_path: Path, ask: Ask) -> Iterator[Follow]:
        """This host is watched, and the other one asked, from entering to leaving."""
        from inferbench_tasks.monitors.session import MonitorSession

        with (
            MonitorSession.of_client(monitors_path),
            followed(self.near, EVERY_S, ASK_EVERY, ask) as self._follow,
        ):
            yield self._follow

    def measure_again(self) -> LinkAround:
        """The link before and after the load."""
        assert self._around is not None
        self._link = self._around.ended()
        return self._link

    def facts(self, start_ns: int, end_ns: int) -> OwnFacts:
        """Once the link was measured again; ``start_ns`` and ``end_ns``: the measured window, by this host's clock."""
        from inferbench_tasks.monitors import environment

        assert self._around is not None and self._follow is not None and self._link is not None
        asked = [*self._around.before.exchanges, *thinned(self._follow.exchanges, MOST_EXCHANGES)]
        return OwnFacts(
            hardware=environment.hardware(),
            system=environment.system(),
            link=self._link,
            exchanges=tuple((e.sent_ns, e.arrived_ns, e.answered_ns, e.received_ns) for e in asked),
            meanwhile=trips_within(self._asked, start_ns, end_ns),
        )

    def placed(self, start_ns: int, end_ns: int) -> Placed | None:
        """How the server's host's clock lies to this one's in that window; None where nobody can tell."""
        from inferbench_tasks.monitors import two_hosts

        return two_hosts.placed(self._asked, start_ns, end_ns)

    @property
    def _asked(self) -> list[Exchange]:
        """All exchanges before the load and while it lasted."""
        assert self._around is not None and self._follow is not None
        return [*self._around.before.exchanges, *self._follow.exchanges]


@contextmanager
def own_side(watch: FarWatch, me: LinkEnd, *, listener: str, what: str) -> Iterator[OwnSide]:
    """Connected from entering to leaving; LoadError where ``what`` came to the server's own host.

    ``listener``: who is connected to, in what is said where that fails.
    """
    with NearSide(watch.invitation, listener=listener) as near:
        if near.far.same_machine(me):
            same = "data directory" if near.far.home == me.home else "running kernel (boot id)"
            raise LoadError(f"{what} came to the server's own host: {me.host} has its {same}")
        yield OwnSide(near, me)
