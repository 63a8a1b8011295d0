"""Recordings of two hosts, one with the server and one with the load, as figures can be made of both.

``t_ns`` of each is its own host's CLOCK_MONOTONIC; records of the load are on the load's. The server's host is put on
that clock by the bounds that exchanges gave, with a constant: what that is wrong by at most is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.timing.two_clocks import Envelope, Exchange

#: Waits are recorded in steps of 40 ms: beyond this it is not known which requests met them.
WAITS_ERROR_NS = 4_000_000
#: Figures over a window are not made of what may lie so far outside of it.
WINDOW_ERROR_RATIO = 0.01


@dataclass(frozen=True)
class Placed:
    """The far clock less the near one in a window, ns: ``offset_ns``, wrong by at most ``error_ns``."""

    offset_ns: int
    error_ns: int


def placed(exchanges: Sequence[Exchange], start_ns: int, end_ns: int) -> Placed | None:
    """One offset for a window of the near clock; None where the clocks contradict themselves in it, or nobody asked."""
    envelope = Envelope(exchanges)
    middle = envelope.at((start_ns + end_ns) // 2)
    if middle is None:
        return None
    offset_ns = round(middle.middle_ns)
    error_ns = envelope.misplaced_ns(offset_ns, start_ns, end_ns)
    return None if error_ns is None else Placed(offset_ns, error_ns)


def misplaced_ns(exchanges: Sequence[Exchange], offset_ns: int, start_ns: int, end_ns: int) -> int | None:
    """By how much the far clock less the near one is another than ``offset_ns``, at most, within a window of the near
    one; None as of ``placed``.
    """
    return Envelope(exchanges).misplaced_ns(offset_ns, start_ns, end_ns)


def on_near_clock(recording: Recording, place: Placed) -> Recording:
    """The far host's recording on the near clock; without its waits where they can't be told in time."""
    series = {
        name: Series(one.t_ns - place.offset_ns, one.values)
        for name, one in recording.series.items()
        if name[0] != "wait" or place.error_ns <= WAITS_ERROR_NS
    }
    return replace(recording, series=series)


def without_server(recording: Recording) -> Recording:
    """The near host's, with what is true of a host without the server: it used nothing there and waited for nothing."""
    client = recording.get("client", "cpu_s_total")
    if client is None:
        return recording
    nothing = Series(client.t_ns, np.zeros(len(client.t_ns)))
    absent = {("server", name): nothing for name in ("cpu_s_total", "waited_s_total")}
    return replace(recording, series={**recording.series, **absent})


def write(recording: Recording, path: Path) -> None:
    """A recording as a file, as ``read_recording`` reads it."""
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    from inferbench_tasks.monitors.records import ABOUT, NAMES, SCHEMA

    parts = list(recording.series.items())
    counts = [len(one.t_ns) for _, one in parts]

    def column(values: list[np.ndarray], kind: pa.DataType) -> pa.Array:
        return pa.array(np.concatenate(values) if values else np.array([]), kind)

    def names(at: int) -> pa.Array:
        texts = [name[at] for (name, _), count in zip(parts, counts, strict=True) for _ in range(count)]
        return pa.array(texts, pa.string()).dictionary_encode().cast(NAMES)

    table = pa.table(
        {
            "t_ns": column([one.t_ns for _, one in parts], pa.int64()),
            "source": names(0),
            "metric": names(1),
            "value": column([one.values for _, one in parts], pa.float64()),
        },
        schema=SCHEMA.with_metadata({ABOUT: json.dumps(recording.about)}),
    )
    pq.write_table(table, path, compression="zstd")
