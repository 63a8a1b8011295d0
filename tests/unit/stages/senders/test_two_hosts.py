"""What collect makes of the recordings of several hosts: how far they may lie apart, and what is left out for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.monitors.two_hosts import Placed, write
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders.two_hosts import TwoHosts, of_two_hosts

MS, S = 1_000_000, 1_000_000_000
AHEAD = 1000 * S
WAITS = ("wait", "server_longest_s")


def recorded(path: Path, at_ns: int) -> str:
    t_ns = np.arange(0, 12 * S, 40 * MS) + at_ns
    names = (("host", "cpu_busy_s_total"), WAITS)
    write(Recording({name: Series(t_ns, np.zeros(len(t_ns))) for name in names}, {}), path)
    return str(path)


def of(folder: Path, second_error_ns: int | None) -> TwoHosts:
    """Of a server that is 1,000 s ahead, asked each 100 ms with round trips of 6 ms; perhaps with a second sender."""
    asked = [(at, at + 3 * MS + AHEAD, at + 3 * MS + AHEAD, at + 6 * MS) for at in range(0, 12 * S, 100 * MS)]
    second = None
    if second_error_ns is not None:
        second = SimpleNamespace(
            monitors_path=recorded(folder / "second.parquet", 7 * S), ahead_ns=7 * S, error_ns=second_error_ns,
            hardware={}, shards=(1,), exchanges=(),
        )  # fmt: skip
    away = SimpleNamespace(
        exchanges=asked, monitors_path=recorded(folder / "client.parquet", 0), hardware={}, unwatched="",
        shards=(0,), second=second,
    )  # fmt: skip
    loaded = SimpleNamespace(away=away, measure_start_ns=S, measure_end_ns=11 * S, quiet=None)
    far = SimpleNamespace(recording_path=recorded(folder / "far.parquet", AHEAD))
    inp: Any = SimpleNamespace(serve=SimpleNamespace(far=far), run_id="r")
    return of_two_hosts(inp, loaded, Context(data_dir=folder, base_dir=folder))


def test_the_server_s_host_may_lie_apart_from_the_second_sender_s_by_both_errors(tmp_path: Path) -> None:
    """3 ms of it from the first one's clock, 2 ms of that from the second one's: 5 ms, with which waits of 40 ms are
    not put beside requests any more; from one sender alone they are."""
    alone, both = of(tmp_path, None), of(tmp_path, 2 * MS)
    assert isinstance(alone.placed, Placed) and isinstance(both.placed, Placed)
    assert 3 * MS <= alone.placed.error_ns < 3.3 * MS
    assert both.placed.error_ns == alone.placed.error_ns + 2 * MS
    assert both.placed.offset_ns == alone.placed.offset_ns
    assert abs(alone.placed.offset_ns - AHEAD) < MS
    assert WAITS in alone.server.series and WAITS not in both.server.series
    second = both.client.second
    assert second is not None and second.recording.series["host", "cpu_busy_s_total"].t_ns[0] == 0
