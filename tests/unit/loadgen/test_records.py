"""Records: what is written comes back, whatever happens to the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.layout import MEASURE, WARMUP
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.records import SCHEMA, SCHEMA_WITH_SPANS, codes, column, is_ok, read_samples
from inferbench_tasks.loadgen.spool import Recorder, Spool
from tests.samples import samples_table, write_table


def _fill(path: Path, shard: int, intended: list[int], *, status: str = "ok") -> Path:
    with Recorder(path, shard, buffered_rows=3) as recorder:
        code = recorder.status_code(status)
        for index, at in enumerate(intended):
            recorder.append(
                shard * 1_000_000 + index, MEASURE, at, at + 1, at + 2, at + 3, code, 10, 20, index % 7, 2
            )
    return path


def test_what_a_recorder_took_comes_back_row_by_row(tmp_path: Path) -> None:
    """Every value of every row survives the spool, the merge and Parquet."""
    with Recorder(tmp_path / "0.spool", 5, buffered_rows=2) as recorder:
        ok, reset = recorder.status_code("ok"), recorder.status_code("reset")
        recorder.append(1, WARMUP, 100, 110, 120, 130, ok, 1000, 2000, 3, 4)
        recorder.append(2, MEASURE, 200, 210, -1, 230, reset, 1001, 0, 4, 4)
        recorder.append(3, MEASURE, 2**62, 2**62 + 1, -1, -1, ok, 2**40, 7, 2**31 - 1, 2**15 - 1)
    assert merge([tmp_path / "0.spool"], tmp_path / "samples.parquet") == 3
    table = read_samples(tmp_path / "samples.parquet")
    assert table.schema.equals(SCHEMA)
    assert table.to_pylist()[:2] == [
        {"request_id": 1, "shard": 5, "phase": "warmup", "intended_ns": 100, "sent_ns": 110,
         "first_byte_ns": 120, "done_ns": 130, "status": "ok", "bytes_sent": 1000, "bytes_received": 2000,
         "sample_index": 3, "batch_size": 4},
        {"request_id": 2, "shard": 5, "phase": "measure", "intended_ns": 200, "sent_ns": 210,
         "first_byte_ns": -1, "done_ns": 230, "status": "reset", "bytes_sent": 1001, "bytes_received": 0,
         "sample_index": 4, "batch_size": 4},
    ]  # fmt: skip
    last = table.to_pylist()[2]
    assert (last["intended_ns"], last["bytes_sent"], last["sample_index"], last["batch_size"]) == (
        2**62, 2**40, 2**31 - 1, 2**15 - 1,
    )  # fmt: skip


def test_shards_are_merged_in_the_order_of_the_intended_times(tmp_path: Path) -> None:
    """Each shard's own status numbers are translated, and no row is lost or doubled, over row groups too."""
    rng = np.random.default_rng(3)
    times = [np.sort(rng.integers(0, 10**9, 50_000)).tolist() for _ in range(3)]
    spools = [
        _fill(tmp_path / f"{shard}.spool", shard, times[shard], status=("ok", "timeout", "reset")[shard])
        for shard in range(3)
    ]
    assert merge(spools, tmp_path / "s.parquet") == 150_000
    table = read_samples(tmp_path / "s.parquet")
    intended = column(table, "intended_ns")
    assert np.array_equal(intended, np.sort(np.concatenate(times)))
    assert len(np.unique(column(table, "request_id"))) == 150_000
    status, names = codes(table, "status")
    by_shard = [names[code] for code in status[np.unique(column(table, "shard"), return_index=True)[1]]]
    assert by_shard == ["ok", "timeout", "reset"]
    assert is_ok(table).sum() == 50_000
    for shard in range(3):
        assert column(table, "intended_ns")[column(table, "shard") == shard].tolist() == times[shard]


def test_phases_can_be_set_by_a_window_that_is_known_afterwards(tmp_path: Path) -> None:
    """[start, end) on the intended time; what lies before is warm-up, after it cool-down."""
    spool = _fill(tmp_path / "0.spool", 0, [10, 20, 30, 40])
    merge([spool], tmp_path / "s.parquet", measure_window_ns=(20, 40))
    phases = read_samples(tmp_path / "s.parquet").column("phase").to_pylist()
    assert phases == ["warmup", "measure", "measure", "cooldown"]


def test_server_spans_travel_where_a_shard_has_them(tmp_path: Path) -> None:
    """A shard without them gets -1 beside a shard that has them."""
    with Recorder(tmp_path / "1.spool", 1, spans=True) as recorder:
        recorder.append(9, MEASURE, 5, 6, 7, 8, 0, 1, 1, 0, 1, (11, 12, 13, 14, 15, -1))
    merge([_fill(tmp_path / "0.spool", 0, [1]), tmp_path / "1.spool"], tmp_path / "s.parquet")
    table = read_samples(tmp_path / "s.parquet")
    assert table.schema.equals(SCHEMA_WITH_SPANS)
    assert table.column("server_queue_ns").to_pylist() == [-1, 11]
    assert table.column("server_postprocess_ns").to_pylist() == [-1, 14]
    assert table.column("client_preprocess_ns").to_pylist() == [-1, 15]


def test_records_survive_the_kill_of_their_sender(tmp_path: Path) -> None:
    """After SIGKILL all that was flushed is there, and a row cut in two is left out."""
    spool = tmp_path / "0.spool"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from inferbench_tasks.loadgen.spool import Recorder\n"
        "r = Recorder(Path(sys.argv[1]), 0, buffered_rows=100)\n"
        "for i in range(1050): r.append(i, 1, i, i, i, i, r.status_code('timeout'), 0, 0, 0, 1)\n"
        "print('written', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(spool)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    with open(spool, "ab") as file:
        file.write(b"half a row")
    assert merge([spool], tmp_path / "s.parquet") == 1000
    assert read_samples(tmp_path / "s.parquet").column("status").to_pylist() == ["timeout"] * 1000


def test_no_records_make_an_empty_file(tmp_path: Path) -> None:
    """A load that was stopped before its first request still has its file."""
    Recorder(tmp_path / "0.spool").close()
    assert merge([tmp_path / "0.spool"], tmp_path / "s.parquet") == 0
    assert read_samples(tmp_path / "s.parquet").num_rows == 0


def test_the_file_is_zstd_with_delta_encoded_numbers(tmp_path: Path) -> None:
    """Times take a few bytes per row, not eight."""
    merge([_fill(tmp_path / "0.spool", 0, list(range(0, 10**8, 10**4)))], tmp_path / "s.parquet")
    group = pq.ParquetFile(tmp_path / "s.parquet").metadata.row_group(0)
    encodings = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings["intended_ns"].encodings
    assert {c.compression for c in encodings.values()} == {"ZSTD"}
    assert (tmp_path / "s.parquet").stat().st_size < 10_000 * 4


def test_a_merge_that_fails_leaves_no_file_behind(tmp_path: Path) -> None:
    """Neither half a file nor its partial one, when a shard can't be read."""
    (tmp_path / "bad.spool").write_bytes(b"not records")
    with pytest.raises(StorageError, match=r"bad\.spool"):
        merge([_fill(tmp_path / "0.spool", 0, [1]), tmp_path / "bad.spool"], tmp_path / "s.parquet")
    assert not list(tmp_path.glob("s.parquet*"))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """A Parquet file without the columns of records says which are missing; other files too."""
    pq.write_table(samples_table({"intended_ns": [1]}).select(["intended_ns"]), tmp_path / "x.parquet")
    with pytest.raises(StorageError, match="no column request_id"):
        read_samples(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text("hello")
    with pytest.raises(StorageError, match=r"y\.parquet"):
        read_samples(tmp_path / "y.parquet")


def test_a_table_is_written_whole(tmp_path: Path) -> None:
    """Records that are in memory already come back as they are."""
    table = samples_table({"intended_ns": [5, 6], "done_ns": [7, 8], "status": ["ok", "timeout"]})
    assert table.schema.equals(SCHEMA)
    assert table.column("sent_ns").to_pylist() == [5, 6]
    assert table.column("first_byte_ns").to_pylist() == [-1, -1]
    write_table(table, tmp_path / "s.parquet")
    assert read_samples(tmp_path / "s.parquet").equals(table)


def test_a_recorder_flushes_by_itself_and_counts(tmp_path: Path) -> None:
    """Memory stays at one buffer: rows are in the file before close."""
    recorder = Recorder(tmp_path / "0.spool", buffered_rows=10)
    for index in range(25):
        recorder.append(index, MEASURE, index, index, index, index, 0, 0, 0, 0, 1)
    assert recorder.rows == 20
    assert Spool(tmp_path / "0.spool").rows == 20
    recorder.close()
    recorder.close()
    assert Spool(tmp_path / "0.spool").rows == 25


def test_merging_imports_no_pandas(tmp_path: Path) -> None:
    """Writing names and numbers needs none of it, and importing it costs more CPU than a short load's records."""
    code = (
        "import sys; from pathlib import Path\n"
        "from inferbench_tasks.loadgen.merging import merge\n"
        "merge([Path(sys.argv[1])], Path(sys.argv[2]))\n"
        "print('pandas' in sys.modules)\n"
    )
    spool = _fill(tmp_path / "0.spool", 0, [1, 2], status="grpc_\N{GREEK SMALL LETTER MU}")
    process = subprocess.run(
        [sys.executable, "-c", code, str(spool), str(tmp_path / "s.parquet")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert process.stdout == "False\n"
    assert (
        read_samples(tmp_path / "s.parquet").column("status").to_pylist()
        == ["grpc_\N{GREEK SMALL LETTER MU}"] * 2
    )


def test_merging_takes_bounded_memory(tmp_path: Path) -> None:
    """A 10-minute run at 5,000 rps: merging three million rows takes far below 500 MB more than importing."""
    spool = tmp_path / "0.spool"
    Recorder(spool).close()
    rows = np.zeros(300_000, Spool(spool).read().dtype)
    rows["done_ns"] = 1
    with open(spool, "ab") as file:
        for block in range(10):
            rows["intended_ns"] = np.arange(300_000) + block * 300_000
            file.write(rows.tobytes())
    code = (
        "import resource, sys; from pathlib import Path\n"
        "import pyarrow.parquet\n"
        "from inferbench_tasks.loadgen.merging import merge\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(merge([Path(sys.argv[1])], Path(sys.argv[2])))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(spool), str(tmp_path / "s.parquet")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    count, grown_kib = map(int, process.stdout.split())
    assert count == 3_000_000
    assert grown_kib < 300 * 1024
