"""What stage ``load`` tells of itself where it ran on another host than the server."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.link import LinkAround
from inferbench_tasks.contracts.located import LocatedPath

#: The monitors of the load's host, on its clock.
NEAR_FILE = "client-monitors.parquet"


class Away(Handle):
    """What is known of the load's host and the way to the server's.

    ``exchanges``: (sent, arrived, answered, received) of the whole load, see ``timing.two_clocks``. ``monitors_path``:
    of this host. ``unwatched``: why the server's host was not watched to the end; "" where it was.
    """

    host: str
    hardware: dict[str, Any]
    system: dict[str, Any]
    link: LinkAround
    exchanges: tuple[tuple[int, int, int, int], ...]
    monitors_path: LocatedPath
    unwatched: str = ""
