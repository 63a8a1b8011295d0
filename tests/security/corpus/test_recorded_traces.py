"""Recorded traces that would take the machine's memory, or never end: refused before they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling import events
from inferbench_tasks.scheduling.recorded import MAX_ROWS, read_trace

NODES = (events.NodeUp(0.0, "n", "cpu", 1),)


def test_a_small_file_of_many_rows_is_not_read(tmp_path: Path) -> None:
    """Equal values take no bytes in a Parquet file: the footer's number of rows decides, not the file's size."""
    path = tmp_path / "t.parquet"
    column = pa.repeat(1.0, 12_000_000)
    pq.write_table(pa.table({"submit_s": column, "duration_s": column}), path)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InputError, match="12,000,000 rows.*allowed are"):
        read_trace(path, NODES)


def test_too_many_lines_and_columns_are_refused(tmp_path: Path) -> None:
    """Empty lines are lines; the columns that one row adds are not added to all others."""
    path = tmp_path / "t.jsonl"
    path.write_text("\n" * (MAX_ROWS + 1))
    with pytest.raises(InputError, match=r"lines; a trace has at most 2,000,000"):
        read_trace(path, NODES)
    path.write_text(json.dumps({f"c{i}": 1 for i in range(50_000)}) + "\n{}" * 50_000)
    with pytest.raises(InputError, match=r"unknown columns \['c0'"):
        read_trace(path, NODES)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, suffix: str) -> None:
    """A pipe that nobody writes to, and a device without end."""
    pipe, device = tmp_path / f"pipe.{suffix}", tmp_path / f"zero.{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(InputError, match="a trace is a file of at most"):
            read_trace(path, NODES)


def test_a_sparse_file_of_terabytes_is_refused(tmp_path: Path) -> None:
    """By its length, which costs its maker nothing."""
    path = tmp_path / "t.csv"
    with open(path, "wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match="a trace is a file of at most"):
        read_trace(path, NODES)
