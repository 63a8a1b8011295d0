"""Traces: replayed as they were recorded, and refused with the row that is wrong."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.errors import InputError
from scripts import make_trace
from tests.unit.arrivals.laws import spec


def _trace(folder: Path, text: str, name: str = "t.csv", **parameters: Any) -> ArrivalProcess:
    (folder / name).write_text(text)
    return spec(kind="trace", path=name, **{"column": "t", **parameters}).bind(folder)


def _offsets(process: ArrivalProcess, duration_s: float = 100.0) -> list[int]:
    return process.offsets_ns(duration_s, np.random.default_rng(0)).tolist()  # type: ignore[no-any-return]


def test_a_csv_is_replayed_from_its_first_moment(tmp_path: Path) -> None:
    """Numbers in their unit, other columns ignored, the rest beyond the duration cut off."""
    process = _trace(tmp_path, "id,t\na,100\nb,100\nc,350\nd,2100\n", unit="ms")
    assert _offsets(process) == [0, 0, 250_000_000, 2_000_000_000]
    assert _offsets(process, 1.0) == [0, 0, 250_000_000]
    assert process.mean_rate_rps(1.0) == 3
    assert process.mean_rate_rps(4.0) == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units_and_time_scale(tmp_path: Path, unit: str) -> None:
    """time_scale 2 is half the speed."""
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    process = _trace(tmp_path, f"t\n0\n{second}\n{3 * second}\n", unit=unit, time_scale=2.0)
    assert _offsets(process) == [0, 2 * 10**9, 6 * 10**9]


def test_dates_and_gzip_and_parquet_are_read(tmp_path: Path) -> None:
    """The format of public traces: a TIMESTAMP column with fractions of a second."""
    text = "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46.6805900,374\n2023-11-16 18:15:50.9951690,396\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert _offsets(spec(kind="trace", path="a.csv.gz").bind(tmp_path)) == [0, 4_314_579_000]
    pq.write_table(pa.table({"t": [1.5, 1.75, 2.5]}), tmp_path / "b.parquet")
    assert _offsets(spec(kind="trace", path="b.parquet", column="t").bind(tmp_path)) == [
        0,
        250_000_000,
        10**9,
    ]


def test_whole_numbers_that_turn_into_fractions_are_read(tmp_path: Path) -> None:
    """Even where the first fraction comes a megabyte later."""
    rows = [*(str(i) for i in range(300_000)), "299999.5"]
    process = _trace(tmp_path, "t\n" + "\n".join(rows) + "\n", unit="ms")
    assert _offsets(process, 1000.0)[-2:] == [299_999_000_000, 299_999_500_000]


def test_nanoseconds_of_unix_time_keep_their_last_digit(tmp_path: Path) -> None:
    """Whole numbers never pass through a float."""
    process = _trace(tmp_path, "t\n1700000000000000001\n1700000000000000018\n", unit="ns")
    assert _offsets(process) == [0, 17]


def test_a_repeated_trace_goes_on_until_the_load_ends(tmp_path: Path) -> None:
    """One mean gap lies between the last request and the first of the next lap: the rate stays."""
    process = _trace(tmp_path, "t\n0\n1\n2\n", repeat=True)
    assert _offsets(process, 7.5) == [i * 10**9 for i in range(8)]
    with pytest.raises(InputError, match="at one instant"):
        _trace(tmp_path, "t\n5\n5\n", repeat=True)


def test_a_hundred_thousand_requests_at_one_instant_are_accepted(tmp_path: Path) -> None:
    """Equal moments are sorted."""
    process = _trace(tmp_path, "t\n" + "3.25\n" * 100_000)
    assert _offsets(process) == [0] * 100_000
    assert process.warmup().mean_rate_rps(1) == 100_000


@settings(max_examples=30, deadline=None)
@given(times=st.lists(st.integers(0, 10**12), min_size=1, max_size=50).map(sorted))
def test_any_sorted_trace_comes_back(tmp_path_factory: pytest.TempPathFactory, times: list[int]) -> None:
    """To the nanosecond, whatever lies between the moments."""
    folder = tmp_path_factory.mktemp("trace")
    process = _trace(folder, "t\n" + "".join(f"{t}\n" for t in times), unit="ns")
    assert _offsets(process, 2000.0) == [t - times[0] for t in times]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t\n1\n-2\n3\n", r"t\.csv, row 2: t is -2; a moment must be 0 or later"),
        ("t\n1\n3\n2.5\n", r"t\.csv, row 3: t is 2\.5, before 3\.0 in the row above; sort the file"),
        ("t\n1\n\n", None),
        ("t,u\n1,1\n,2\n", r"t\.csv, row 2: no moment in column t"),
        ("t\n1\nnan\n", r"row 2"),
        ("t\n1\ninf\n", r"row 2"),
        ("t\n", r"t\.csv holds no request"),
        ("", r"t\.csv can't be read as a trace"),
        ("t\nsoon\nlater\n", r"column t holds string, not moments"),
        ("t\n1\nlater\n", r"column t holds string, not moments"),
        ("when\n1\n", r"t\.csv has no column 't'; its columns: 'when'"),
        ("t,t\n1,2\n", r"more than one column 't'"),
        ("t\n0\n1e12\n", r"longer than a hundred years; check unit"),
        ("t\n0\n2024-01-01 00:00:00\n", r"column t holds string"),
    ],
)
def test_a_broken_trace_is_refused_with_its_row(tmp_path: Path, text: str, said: str | None) -> None:
    """Negative, unsorted, missing or no moments at all: the message says where; an empty line is none."""
    if said is None:
        assert _offsets(_trace(tmp_path, text)) == [0]
        return
    with pytest.raises(InputError, match=said):
        _trace(tmp_path, text)


def test_a_trace_can_not_leave_the_folder_of_its_submission(tmp_path: Path) -> None:
    """A link that leads out, a folder, a pipe, a missing file, another format: each with its own words."""
    folder = tmp_path / "submissions"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text("t\n1\n")
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "dir.csv").mkdir()
    (folder / "x.txt").write_text("t\n1\n")
    os.mkfifo(folder / "pipe.csv")
    for name, said in {
        "link.csv": "leads out of the submission's folder",
        "dir.csv": "is no file",
        "pipe.csv": "is no file",
        "none.csv": "there is no such file",
        "x.txt": r"allowed are \.csv, \.csv\.gz, \.parquet and \.jsonl",
    }.items():
        with pytest.raises(InputError, match=said):
            spec(kind="trace", path=name, column="t").bind(folder)


def test_validating_touches_no_file_and_an_unbound_trace_says_so() -> None:
    """The file is only read by ``bind``; two specs can be compared all the same."""
    process = spec(kind="trace", path="nowhere.csv")
    assert process == spec(kind="trace", path="nowhere.csv")
    assert process.mean_rate_rps(10) is None
    process.check(10)
    with pytest.raises(RuntimeError, match="must be bound"):
        process.offsets_ns(10, np.random.default_rng(0))


def test_the_shipped_trace_is_what_its_generator_makes() -> None:
    """Byte by byte; it can be replayed, and comes in clusters that swing, unlike a steady Poisson process."""
    root = Path(__file__).parents[3]
    path = root / "configs" / "submissions" / "traces" / "conversations.csv"
    assert make_trace.text(seed=2026) == path.read_text()
    process = spec(kind="trace", path="traces/conversations.csv").bind(path.parents[1])
    offsets = process.offsets_ns(300, np.random.default_rng(0))
    assert len(offsets) == path.read_text().count("\n") - 1
    assert process.mean_rate_rps(300) == pytest.approx(8, abs=2)
    counts = np.histogram(offsets, bins=60)[0]
    assert counts.var(ddof=1) > 2 * counts.mean()


def test_a_trace_that_ends_early_says_when(tmp_path: Path) -> None:
    """One mean gap after its last request: what comes later is not its rate. A repeated one lasts as asked."""
    process = _trace(tmp_path, "t\n0\n1\n2\n3\n")
    assert process.lasts_s(100.0) == 4 and process.lasts_s(2.5) == 2.5
    assert _trace(tmp_path, "t\n0\n1\n2\n3\n", time_scale=0.5).lasts_s(100.0) == 2
    assert _trace(tmp_path, "t\n0\n1\n", repeat=True).lasts_s(100.0) == 100
    assert spec(kind="poisson", rate_rps=1.0).lasts_s(100.0) == 100
