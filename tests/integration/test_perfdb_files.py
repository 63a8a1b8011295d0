"""Files in PerfDB, on a real MongoDB: the embedded one, or the server of INFERBENCH_PERFDB_URI."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gridfs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect

from inferbench_tasks.errors import InputError, PerfDBError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.perfdb.builders import begun_before, result

pytestmark = pytest.mark.integration
DAY_S = 86_400.0


def test_a_damaged_file_is_never_read_as_whole(perfdb: PerfDB, tmp_path: Path) -> None:
    """Changed, shortened or missing bytes are an error, never samples."""
    pq.write_table(pa.table({"done_ns": range(1000)}), tmp_path / "s.parquet")
    perfdb.save_result(result(), tmp_path / "s.parquet")
    chunks = perfdb._session.database()["fs.chunks"]
    whole = chunks.find_one()
    assert whole is not None
    changed = bytes([whole["data"][0] ^ 1]) + whole["data"][1:]
    for data in (changed, whole["data"][:-1]):
        chunks.update_one({"_id": whole["_id"]}, {"$set": {"data": data}})
        with pytest.raises(PerfDBError, match="damaged"):
            perfdb.samples("run-1")
    chunks.delete_one({"_id": whole["_id"]})
    with pytest.raises(PerfDBError, match="damaged"):
        perfdb.samples("run-1")


def test_files(perfdb: PerfDB, tmp_path: Path) -> None:
    """A file larger than a document goes in and out unchanged, and can be deleted."""
    content = os.urandom(17_000_000)
    (tmp_path / "big").write_bytes(content)
    stored = perfdb.files.put(tmp_path / "big", "big", owner="test")
    assert perfdb.files.save_to(stored, tmp_path / "out" / "big").read_bytes() == content
    perfdb.files.delete(stored)
    perfdb.files.delete(stored)
    with pytest.raises(PerfDBError, match="no file"):
        perfdb.files.get(stored)
    with pytest.raises(StorageError, match="can't be read: No such file"):
        perfdb.files.put(tmp_path / "missing", "missing")
    with pytest.raises(InputError, match="no id of a file"):
        perfdb.files.get("x")


def test_a_file_whose_answer_was_lost_is_stored_once(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stored it and was killed before it said so: it is stored again, and the first one is nowhere."""
    upload, lost = gridfs.GridFSBucket.upload_from_stream_with_id, [AutoReconnect("killed")]

    def then_killed(*args: Any, **kwargs: Any) -> None:
        upload(*args, **kwargs)
        if lost:
            raise lost.pop()

    monkeypatch.setattr(gridfs.GridFSBucket, "upload_from_stream_with_id", then_killed)
    file = perfdb.files.put(b"spans", "spans.parquet", run_id="r")
    assert not lost and perfdb.files.get(file) == b"spans"
    for collection, field in (("fs.files", "_id"), ("fs.chunks", "files_id")):
        assert perfdb.collection(collection).distinct(field) == [ObjectId(file.id)]


@pytest.mark.parametrize("ahead_s", [-25 * 3600.0, 25 * 3600.0])
def test_a_file_that_is_being_stored_is_let_be_whatever_its_hosts_clock_says(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """A host whose clock is 25 h slow, or fast, has sent the content and not yet the entry: a cleaning of what is older
    than a day takes what began two days ago alone.
    """
    begun_before(perfdb, perfdb.files.put(b"killed", "old.parquet").id, days=2)
    now_s = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now_s() + ahead_s)
        assert abs(ObjectId().generation_time.timestamp() - now_s() - ahead_s) < 60
        under_way = perfdb.files.put(b"under way", "new.parquet")
        perfdb.collection("fs.files").delete_many({})  # which is written last
        assert perfdb.files.delete_unfinished(DAY_S) == 1
    assert perfdb.collection("fs.chunks").distinct("files_id") == [ObjectId(under_way.id)]
