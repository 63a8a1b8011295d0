"""Whose times are: the host that a brick was timed on, of all hosts whose times one PerfDB has."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs import machines
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.perfdb.store import PerfDB

#: What a host is called of which nobody knows which it is: times of before hosts were kept name none.
UNKNOWN = "a host that is not known"


@dataclass(frozen=True)
class Place:
    """A host. ``home``: of its data directory (``settings.home_id``); ``homes``: of all data directories of its
    machine, as far as they told of themselves."""

    home: str = ""
    host: str = ""
    homes: frozenset[str] = frozenset()

    def owns(self, home: str) -> bool:
        """Whether what is stored with this home is of this host."""
        return home == self.home or home in self.homes


def place_here(db: PerfDB, data_dir: Path) -> Place:
    """This host, which is told to PerfDB."""
    home, host = settings.home_id(data_dir), platform.node()
    machines.tell(db, home, host, settings.boot_id(), ours=db.embedded)
    return Place(home, host, machines.read(db).homes(home))


def leading_place(db: PerfDB) -> Place | None:
    """The leader; None where none ever said that it leads, and all there is may be of this host."""
    leader = Hosts(db).leader()
    return None if leader is None else Place(leader[1], homes=machines.read(db).homes(leader[1]))


def hosts_of(results: Iterable[Result], own: Place | None) -> list[str]:
    """The names of the hosts that times are of, or follow from; [] where all of them are ``own``'s, or of one host and
    nobody can say whose."""
    results = list(results)
    homes = {home for result in results for home, _ in result.places}
    if own is None and len(homes) < 2:
        return []
    if own is not None and all(own.owns(home) for home in homes):
        return []
    return names_of(results)


def names_of(results: Iterable[Result]) -> list[str]:
    """The names of all hosts that times are of, or follow from."""
    return sorted({host or UNKNOWN for result in results for _, host in result.places})
