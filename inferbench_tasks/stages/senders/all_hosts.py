"""Part of ``collect``: what was recorded on the server's host and on the load's, on one clock, and what is kept.

Where several hosts shared the load, the first one's clock is that of the records; the others' monitors are put there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.link import RoundTrips
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.stages.base import Context, StageInput
from inferbench_tasks.stages.senders.handles import NEAR_FILE, Away, FurtherHost, monitors_file

if TYPE_CHECKING:
    from inferbench_tasks.metrics.base import ClientHost
    from inferbench_tasks.monitors.records import Recording
    from inferbench_tasks.monitors.two_hosts import Placed
    from inferbench_tasks.perfdb.store import PerfDB

#: As a load of one host has it: the server's, on the clock of the load's records.
MONITORS_FILE = "monitors.parquet"
UNTOLD = (
    "how the clocks of the two hosts lie in the window is not known, so that nothing recorded on the server's host can "
    "be put beside the load"
)


@dataclass(frozen=True)
class AllHosts:
    """``server`` is empty where its clock could not be put beside the load's (``placed`` is None). ``meanwhile``: the
    round trips within the window; None where there was none; ``further_meanwhile``: those of each host that shared the
    load with the first.
    """

    server: Recording
    client: ClientHost
    placed: Placed | None
    meanwhile: RoundTrips | None
    away: Away
    folder: Path
    quiet: dict[str, Any] | None
    further_meanwhile: tuple[RoundTrips | None, ...] = ()

    def stored(self, db: PerfDB, inp: StageInput) -> dict[str, Any]:
        """What a result says of all hosts, with the files that go with it."""
        from inferbench_tasks.monitors.two_hosts import write

        def put(path: Path) -> dict[str, Any]:
            return db.files.put(path, path.name, run_id=inp.run_id, attempt=inp.attempt).model_dump()

        place, away = self.placed, self.away
        document: dict[str, Any] = {
            "host": away.host,
            "hardware": away.hardware,
            "system": away.system,
            "link": away.link.model_dump(mode="json"),
            "round_trip_meanwhile": None if self.meanwhile is None else self.meanwhile.model_dump(),
            "clock_error_ms": None if place is None else place.error_ns / 1e6,
            "clock_reason": UNTOLD if place is None else "",
            "unwatched": away.unwatched,
            "quiet": self.quiet,
            "monitors": put(named(Path(away.monitors_path), self.folder)),
        }
        for at, (host, meanwhile) in enumerate(zip(away.further, self.further_meanwhile, strict=True)):
            document[ORDINALS[at]] = {
                "host": host.host,
                "hardware": host.hardware,
                "system": host.system,
                "link": host.link.model_dump(mode="json"),
                "round_trip_meanwhile": meanwhile and meanwhile.model_dump(),
                "clock_error_ms": host.error_ns / 1e6,
                "clock_reason": "",
                "unwatched": "",
                "quiet": host.quiet,
                "shards": [*host.shards],
                "monitors": put(named(Path(host.monitors_path), self.folder, monitors_file(at + 1))),
            }
            document["shards"] = [*away.shards]
        stored: dict[str, Any] = {"client_host": document}
        if place is not None:
            path = self.folder / MONITORS_FILE
            write(self.server, path)
            stored["monitors"] = put(path)
        return stored


def of_all_hosts(inp: Any, loaded: Any, ctx: Context) -> AllHosts:
    """Read all; ``inp`` and ``loaded`` are those of ``collect``, which runs on the server's host."""
    from inferbench_tasks.metrics.base import ClientHost
    from inferbench_tasks.monitors import two_hosts
    from inferbench_tasks.monitors.records import EMPTY, read_recording

    away: Away = loaded.away
    start_ns, end_ns = loaded.measure_start_ns, loaded.measure_end_ns
    place = None
    if away.ahead_ns is not None and away.error_ns is not None:
        place = two_hosts.Placed(away.ahead_ns, away.error_ns)
    if place is not None and place.error_ns > two_hosts.WINDOW_ERROR_RATIO * (end_ns - start_ns):
        place = None
    if place is not None:
        # Beside another host's records it lies as the first one's clock does, and that is wrong beside them too.
        place = replace(
            place, error_ns=place.error_ns + max((host.error_ns for host in away.further), default=0)
        )
    path = Path(inp.serve.far.recording_path)
    there = place is not None and path.is_file()
    server = two_hosts.on_near_clock(read_recording(path), place) if place is not None and there else EMPTY
    client = ClientHost(
        recording=two_hosts.without_server(read_recording(Path(away.monitors_path))),
        hardware=away.hardware,
        unwatched=away.unwatched or ("" if place is not None else UNTOLD),
        shards=away.shards,
        further=tuple(map(_recorded, away.further)),
    )
    return AllHosts(
        server,
        client,
        place,
        away.meanwhile,
        away,
        ctx.run_dir(inp.run_id),
        loaded.quiet,
        tuple(host.meanwhile for host in away.further),
    )


def _recorded(host: FurtherHost) -> ClientHost:
    """With its monitors on the first client host's clock."""
    from inferbench_tasks.metrics.base import ClientHost
    from inferbench_tasks.monitors import two_hosts
    from inferbench_tasks.monitors.records import read_recording

    place = two_hosts.Placed(host.ahead_ns, host.error_ns)
    recording = two_hosts.on_near_clock(read_recording(Path(host.monitors_path)), place)
    return ClientHost(two_hosts.without_server(recording), host.hardware, shards=host.shards)


def named(path: Path, folder: Path, name: str = NEAR_FILE) -> Path:
    """A client host's monitors under their own name, whatever the cache of artifacts calls the file."""
    if path.name == name:
        return path
    copy = folder / name
    copy.write_bytes(path.read_bytes())
    return copy
