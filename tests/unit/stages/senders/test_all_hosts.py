"""What collect makes of the recordings of several hosts: how far they may lie apart, and what is left out for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from inferbench_tasks.contracts.link import RoundTrips
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.monitors.two_hosts import Placed, placed, write
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders.all_hosts import AllHosts, of_all_hosts
from inferbench_tasks.timing.two_clocks import Exchange

MS, S = 1_000_000, 1_000_000_000
AHEAD = 1000 * S
WAITS = ("wait", "server_longest_s")


def recorded(path: Path, at_ns: int) -> str:
    t_ns = np.arange(0, 12 * S, 40 * MS) + at_ns
    names = (("host", "cpu_busy_s_total"), WAITS)
    write(Recording({name: Series(t_ns, np.zeros(len(t_ns))) for name in names}, {}), path)
    return str(path)


def of(folder: Path, *errors_ns: int) -> AllHosts:
    """Of a server that is 1,000 s ahead, asked each 100 ms with round trips of 6 ms; a further sender for each of
    ``errors_ns``, by so much wrong, 7 s, 14 s, ... ahead.
    """
    asked = [
        Exchange(at, at + 3 * MS + AHEAD, at + 3 * MS + AHEAD, at + 6 * MS)
        for at in range(0, 12 * S, 100 * MS)
    ]
    place = placed(asked, S, 11 * S)
    assert place is not None
    further = tuple(
        SimpleNamespace(
            monitors_path=recorded(folder / f"{number}.parquet", 7 * number * S), ahead_ns=7 * number * S,
            error_ns=error_ns, hardware={}, shards=(number,), meanwhile=RoundTrips.of([number * MS] * 2),
        )
        for number, error_ns in enumerate(errors_ns, 1)
    )  # fmt: skip
    away = SimpleNamespace(
        ahead_ns=place.offset_ns, error_ns=place.error_ns, meanwhile=None,
        monitors_path=recorded(folder / "client.parquet", 0), hardware={}, unwatched="",
        shards=(0,), further=further,
    )  # fmt: skip
    loaded = SimpleNamespace(away=away, measure_start_ns=S, measure_end_ns=11 * S, quiet=None)
    far = SimpleNamespace(recording_path=recorded(folder / "far.parquet", AHEAD))
    inp: Any = SimpleNamespace(serve=SimpleNamespace(far=far), run_id="r")
    return of_all_hosts(inp, loaded, Context(data_dir=folder, base_dir=folder))


def test_the_server_s_host_may_lie_apart_from_another_sender_s_by_both_errors(tmp_path: Path) -> None:
    """3 ms of it from the first one's clock, 2 ms of that from the second one's: 5 ms, with which waits of 40 ms are
    not put beside requests any more; from one sender alone they are."""
    alone, both = of(tmp_path), of(tmp_path, 2 * MS)
    assert isinstance(alone.placed, Placed) and isinstance(both.placed, Placed)
    assert 3 * MS <= alone.placed.error_ns < 3.3 * MS
    assert both.placed.error_ns == alone.placed.error_ns + 2 * MS
    assert both.placed.offset_ns == alone.placed.offset_ns
    assert abs(alone.placed.offset_ns - AHEAD) < MS
    assert WAITS in alone.server.series and WAITS not in both.server.series
    (second,) = both.client.further
    assert second.recording.series["host", "cpu_busy_s_total"].t_ns[0] == 0


def test_of_three_senders_each_is_put_on_the_first_one_s_clock(tmp_path: Path) -> None:
    """By its own number; the server's host may lie apart from any of them, so by the worst one's error. Round trips
    are those that each told."""
    alone, three = of(tmp_path), of(tmp_path, MS // 2, MS // 4)
    assert alone.placed is not None and three.placed is not None
    assert three.placed.error_ns == alone.placed.error_ns + MS // 2
    assert [*three.client.by_role] == ["client", "second client", "third client"]
    for number, host in enumerate(three.client.further, 1):
        assert host.recording.series["host", "cpu_busy_s_total"].t_ns[0] == 0 and host.shards == (number,)
    trips = [(of_one.count, of_one.min_ms) for of_one in three.further_meanwhile if of_one]
    assert trips == [(2, 1.0), (2, 2.0)]
