"""What is handed on of hosts that send a load to another host's server: who waits where, what they are, their links."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.link import LinkAround, RoundTrips
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.stages.senders.far_watch import FarWatch

#: Between two exchanges with another host while a load lasts, and how many pass before it is asked how things are.
EVERY_S, ASK_EVERY = 0.25, 4
#: So many of a load's exchanges are handed on, beside those before it: a load may last days.
MOST_EXCHANGES = 1_000
#: The monitors of the load's host, on its own clock.
NEAR_FILE = "client-monitors.parquet"


def monitors_file(number: int) -> str:
    """Those of a host that shares the load, on its own clock; ``number``: of the hosts beside the first, from 1."""
    return f"{ORDINALS[number - 1]}-{NEAR_FILE}"


class Standby(Handle):
    """What waits on a further client host for the first one to connect (``far_senders``): how it is reached, how many
    senders its host would have, whether that was quiet (``monitors.quiet.Patience``), and a word where it was not.
    ``device_id``: the device of that host; "" where nobody leases any.
    """

    reached: FarWatch
    host: str
    senders: int
    quiet: dict[str, Any] | None = None
    not_quiet: str = ""
    device_id: str = ""


class TraceSender(Handle):
    """What waits on the host that the load came from, to send it again for ``trace`` (``trace_sender``): how it is
    reached, and that host's name. ``problem``: why nothing waits there; "" where it does.
    """

    host: str
    reached: FarWatch | None = None
    problem: str = ""


class OwnFacts(Handle):
    """What a host that sends knows of itself, and of the way from it to the server's host.

    ``meanwhile``: the round trips within the measured window; None where there was none. ``exchanges``: (sent, arrived,
    answered, received), see ``timing.two_clocks``, by its own clock; of a long load some from all over it, to look at:
    figures are made of all of them, where they were asked.
    """

    hardware: dict[str, Any]
    system: dict[str, Any]
    link: LinkAround
    exchanges: tuple[tuple[int, int, int, int], ...]
    meanwhile: RoundTrips | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """These alone, for a handle that has more."""
        return {name: getattr(self, name) for name in OwnFacts.model_fields}


class SendingHost(OwnFacts):
    """The same with its name; its monitors are by its own clock, too."""

    host: str
    monitors_path: LocatedPath


class FurtherHost(SendingHost):
    """One that shares the load with the first one.

    Its clock is ``ahead_ns`` ahead of the first one's, wrong by at most ``error_ns`` over the load. ``not_quiet``: a
    word where others used it before the load; "" where it was quiet.
    """

    ahead_ns: int
    error_ns: int
    shards: tuple[int, ...]
    quiet: dict[str, Any] | None = None
    not_quiet: str = ""


class Away(SendingHost):
    """The load's host.

    The clock of the server's host is ``ahead_ns`` ahead of its own in the measured window, wrong by at most
    ``error_ns``; both are None where nobody can tell. ``unwatched``: why the server's host was not watched to the end;
    "" where it was. ``shards``: the senders of this host, and ``further`` the other ones in their order, where several
    share the load.
    """

    ahead_ns: int | None = None
    error_ns: int | None = None
    unwatched: str = ""
    shards: tuple[int, ...] = ()
    further: tuple[FurtherHost, ...] = ()

    @property
    def hosts(self) -> str:
        """Who sent; several in the order of their names, for the load is one whoever led it."""
        return " and ".join(sorted([self.host, *(host.host for host in self.further)]))

    @property
    def way(self) -> str:
        """From which hosts to which: ``from a and b to c``, where the server is on the last."""
        return f"from {self.hosts} to {self.link.before.far.host}"
