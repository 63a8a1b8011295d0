"""What monitors saw while a trace was made, from recordings by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.monitors.base import MONITORS
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.tracing import counters
from inferbench_tasks.tracing.counters import (
    Seen,
    ServerTrack,
    Track,
    in_rows,
    joined,
    kinds_of,
    packed,
    summary,
    tracks_in,
    tracks_of,
)
from inferbench_tasks.tracing.spans import Span, write

S = 1_000_000_000
OFFSET_NS = 1_700_000_000 * S


def recording(**series: Sequence[tuple[float, float]]) -> Recording:
    """``source__metric``: second and value of each sample."""
    found = {}
    for name, samples in series.items():
        source, _, metric = name.partition("__")
        times_ns = np.array([round(at * S) for at, _ in samples], dtype=np.int64)
        found[source, metric] = Series(times_ns, np.array([value for _, value in samples]))
    return Recording(found, {})


def tracks(seen: Recording, begin_s: float = 0, end_s: float = 10) -> dict[str, list[tuple[float, float]]]:
    """By title: from which second on which value holds."""
    return {
        track.title: [
            ((at - OFFSET_NS) / S, value) for at, value in zip(track.times_ns, track.values, strict=True)
        ]
        for track in tracks_of(seen, round(begin_s * S), round(end_s * S), OFFSET_NS)
    }


def test_a_value_stands_where_it_holds() -> None:
    """Memory from its sample on; CPU used since the sample before from that one on; of energy the power until the next
    one. What is not shown, and what was never sampled, is no track."""
    seen = recording(
        server__rss_bytes=[(1, 10.0), (2, 20.0)],
        server__cpu_cores=[(1, 0.5), (2, 1.5), (3, 2.0)],
        rapl__package_j_total=[(1, 100.0), (2, 130.0), (4, 230.0)],
        host__network_sent_bytes_total=[(1, 5.0)],
    )
    assert tracks(seen) == {
        "server's memory, bytes": [(1, 10.0), (2, 20.0)],
        "server's CPU, cores": [(1, 1.5), (2, 2.0)],
        "processors' power, W": [(1, 30.0), (2, 50.0)],
    }


def test_only_what_held_while_it_was_traced_is_there() -> None:
    """From 2.5 to 4.2 s: what held as it began, at its beginning, and the samples in it. NaN is no value."""
    samples = [(1, 1.0), (2, 2.0), (3, 3.0), (4, float("nan")), (5, 5.0)]
    assert tracks(recording(server__threads=samples), 2.5, 4.2) == {
        "server's threads": [(2.5, 2.0), (3, 3.0)]
    }
    assert tracks(recording(server__threads=[(5, 1.0)]), 2, 3) == {}


def test_what_was_used_before_it_was_traced_is_not_told() -> None:
    """The sampler looked last at 2 s: CPU and power of the second before are nothing of a trace from 2.1 s on, and of
    one from 1.9 s on until 2 s alone; memory is what it was."""
    seen = recording(
        server__cpu_cores=[(1, 0.5), (2, 1.5)],
        rapl__package_j_total=[(1, 100.0), (2, 130.0)],
        server__rss_bytes=[(1, 10.0), (2, 20.0)],
    )
    assert tracks(seen, 2.1, 2.3) == {"server's memory, bytes": [(2.1, 20.0)]}
    assert tracks(seen, 1.9, 2.3)["server's CPU, cores"] == [(1.9, 1.5)]
    assert tracks(seen, 1.9, 2.3)["processors' power, W"] == [(1.9, 30.0)]
    ends_s = {
        track.name: (track.until_ns - OFFSET_NS) / S
        for track in tracks_of(seen, round(1.9 * S), round(2.3 * S), OFFSET_NS)
    }
    assert set(ends_s.values()) == {2.0} and len(ends_s) == 3


def test_servers_one_after_the_other_make_one_track() -> None:
    """By time, whichever came first."""
    early, late = ServerTrack("a", "", [1, 2], [1.0, 2.0], 3), ServerTrack("a", "", [8, 9], [8.0, 9.0], 9)
    other = ServerTrack("b", "W", [1], [5.0], 2)
    assert joined([Seen([late, other]), Seen([early])]) == [
        Track("a", "", [1, 2, 8, 9], [1.0, 2.0, 8.0, 9.0]),
        Track("b", "W", [1], [5.0]),
    ]


def test_a_peak_between_two_stored_samples_is_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more samples than are stored every so many-th is, over the whole time; number, least, mean and most are of all
    of them."""
    monkeypatch.setattr(counters, "MOST_SAMPLES", 3)
    servers = [Seen([ServerTrack("a", "", [1, 2, 3, 4], [5.0, 90.0, 5.0, 1.0], 5)])]
    write([], tmp_path / "thin", packed(joined(servers)))
    assert tracks_in(pq.ParquetFile(tmp_path / "thin").read()) == [Track("a", "", [1, 3], [5.0, 5.0])]
    row = {"counter": "a", "samples": 4, "least": 1.0, "mean": 25.25, "most": 90.0}
    assert summary(servers) == {"counters": [row]}


def test_the_mean_is_over_the_time_for_which_values_held() -> None:
    """A sampler that slows down counts what it saw often no more than the rest; between two servers, and after a
    sampler failed, nothing held. Where no time is known it is that of the samples."""
    first = ServerTrack("a", "", [0, 1, 2], [1.0, 1.0, 4.0], 10)
    second = ServerTrack("a", "", [1_000], [7.0], 1_010)
    assert summary([Seen([first]), Seen([second])])["counters"][0]["mean"] == pytest.approx(
        (1 + 1 + 8 * 4 + 10 * 7) / 20
    )
    assert summary([Seen([ServerTrack("a", "", [5], [3.0], 5)])])["counters"][0]["mean"] == 3.0


def test_they_are_kept_with_the_spans(tmp_path: Path) -> None:
    """In the same file, whose spans are as without them; of a file without any there are none."""
    track = Track("server's CPU", "cores", [OFFSET_NS, OFFSET_NS + 1], [0.25, 1.75])
    spans = [Span("a" * 32, 0, -1, "application", "request", OFFSET_NS, 9)]
    for name, kept in (("with", [track]), ("without", [])):
        write(spans, tmp_path / name, packed(kept))
        table = pq.ParquetFile(tmp_path / name).read()
        assert tracks_in(table) == kept and table.num_rows == 1
        assert tracks_in(table.slice(0, 1)) == kept
    assert summary([Seen([]), Seen([], "it was killed")]) == {"counters": [], "unseen": "it was killed"}


def test_what_is_shown_is_what_monitors_tell() -> None:
    """Each figure is one that its monitor has; of a GPU what is traced on one alone. No two have one name."""
    assert set(kinds_of("cpu")) == {"server", "host", "rapl"}
    assert set(kinds_of("gpu")) == {*kinds_of("cpu"), "gpu"}
    names = [shown.name for shown in counters._SHOWN]
    assert len(set(names)) == len(names) and not any(", " in name for name in names)
    for shown in counters._SHOWN:
        assert shown.metric in MONITORS.load(shown.source).metrics


def test_a_row_of_each_figure_has_its_unit_apart() -> None:
    """Of what is counted there is none; a trace of before has no rows."""
    until_ns = OFFSET_NS + S
    seen = [
        ServerTrack("host's CPU", "share of all cores", [OFFSET_NS], [0.5], until_ns),
        ServerTrack("server's threads", "", [OFFSET_NS], [7.0], until_ns),
    ]
    assert in_rows(summary([Seen(seen)])) == [
        {"counter": "host's CPU", "unit": "share of all cores", "least": 0.5, "mean": 0.5, "most": 0.5},
        {"counter": "server's threads", "unit": "", "least": 7.0, "mean": 7.0, "most": 7.0},
    ]
    assert in_rows({"spans": 9}) == []


def test_many_samples_take_little_room() -> None:
    """A dozen tracks, each as long as is kept, take half a megabyte at most beside the spans."""
    rng = np.random.default_rng(1)
    times_ns = [OFFSET_NS + at * S // 10 for at in range(counters.MOST_SAMPLES)]
    many = [Track(f"t{at}", "", times_ns, rng.random(len(times_ns)).tolist()) for at in range(12)]
    assert sum(map(len, packed(many).values())) < 512 * 1024


def test_a_made_up_gpu_is_a_track_beside_the_spans() -> None:
    """Memory and power from their samples on, shares of time since the sample before, power by what energy grew."""
    seen = recording(
        gpu__memory_used_bytes=[(1, 10.0), (2, 20.0)],
        gpu__power_w=[(1, 70.0), (2, 90.0)],
        gpu__utilisation_ratio=[(1, 0.1), (2, 0.6)],
        gpu__energy_j_total=[(1, 100.0), (2, 180.0)],
    )
    assert tracks(seen) == {
        "GPU's memory, bytes": [(1, 10.0), (2, 20.0)],
        "GPU's power, W": [(1, 70.0), (2, 90.0)],
        "GPU's use, share of time": [(1, 0.6)],
        "GPU's power by its energy, W": [(1, 80.0)],
    }
