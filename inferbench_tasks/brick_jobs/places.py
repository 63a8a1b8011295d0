"""Whose times are: the host that a brick was timed on, of all hosts whose times one PerfDB has."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.perfdb.store import PerfDB

#: What a host is called whose name was not kept: times of before hosts were kept are the system's own.
NOT_RECORDED = "the system's own host"


@dataclass(frozen=True)
class Place:
    """A host. ``home``: of its data directory (``settings.home_id``); ``leads``: whether what was stored before hosts
    were kept is its own, as it is the leader's, and that of a system of one host."""

    home: str = ""
    host: str = ""
    leads: bool = True

    def owns(self, home: str) -> bool:
        """Whether what is stored with this home is of this host."""
        return home == self.home or (not home and self.leads)


def place_here(db: PerfDB, data_dir: Path) -> Place:
    """This host."""
    home, leader = settings.home_id(data_dir), Hosts(db).leader()
    return Place(home, platform.node(), leader is None or leader[1] == home)


def leading_place(db: PerfDB) -> Place | None:
    """The leader; None where none ever said that it leads, and all there is may be of this host."""
    leader = Hosts(db).leader()
    return None if leader is None else Place(leader[1])


def hosts_of(results: Iterable[Result], own: Place | None) -> list[str]:
    """The names of the hosts that times are of; [] where all of them are ``own``'s, or of one host and nobody can say
    whose."""
    places = {result.home: result.host or NOT_RECORDED for result in results}
    if own is None and len({home for home in places if home}) < 2:
        return []
    if own is not None and all(own.owns(home) for home in places):
        return []
    return sorted(set(places.values()))
