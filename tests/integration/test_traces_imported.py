"""Imported traces in a real PerfDB: by the commands, beside traced runs, and gone without rest."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from bson import ObjectId

from inferbench_tasks.cli.main import main
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import clients
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.backup import backup, restore
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.foreign.file import load, read
from inferbench_tasks.tracing.foreign.keep import keep
from inferbench_tasks.tracing.spans import write
from inferbench_tasks.tracing.stored import delete, delete_unfinished, find_imported, rows, stored_before
from tests.unit.analysis.stack.spans import layer
from tests.unit.analysis.stack.spans import run as spans_of_run
from tests.unit.perfdb.builders import begun_before, result
from tests.unit.tracing.foreign.files import otlp, otlp_span

pytestmark = pytest.mark.integration


def seed_run(db: PerfDB, folder: Path, run_id: str) -> None:
    """A traced run, and the file of its spans."""
    path = folder / f"{run_id}.parquet"
    write(spans_of_run(0, 0, [layer("c", "Conv", 100)]), path)
    stored = db.files.put(path, "spans.parquet", run_id=run_id)
    trace = {"levels": ["application", "layer"], "spans": 3, "layers": {"framework_ms": 0.1}}
    db.save_result(result(run_id, extensions={"trace": trace | {"file": stored.model_dump()}}))


def import_one(db: PerfDB, folder: Path, name: str = "shop.json", end_ns: int = 9_000) -> str:
    """Import a trace of two spans; its id."""
    path = folder / name
    path.write_bytes(otlp(otlp_span(1, None, 1_000, end_ns), otlp_span(2, 1, 2_000, 4_000)))
    file = load(path)
    return str(keep(db, file, read(file))[0]["_id"])


def counts(db: PerfDB) -> tuple[int, int]:
    """Files of GridFS, and their chunks."""
    return tuple(db.collection(name).count_documents({}) for name in ("fs.files", "fs.chunks"))  # type: ignore[return-value]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints, stderr where it fails."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert (end.value.code or 0) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def test_by_commands(
    perfdb: PerfDB,
    perfdb_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Import, list beside a run, show, export, delete; what it is not is said, and it is refused where runs count."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    seed_run(perfdb, tmp_path, "ours")
    path = tmp_path / "shop.json"
    path.write_bytes(otlp(otlp_span(1, 9, 1_000, 9_000), otlp_span(2, 1, 2_000, 4_000)))
    document = json.loads(run(capsys, "trace", "import", str(path), "-o", "json"))
    trace = document["trace"]
    assert trace.startswith("imported-") and (document["spans"], document["traces"], document["roots"]) == (
        2,
        1,
        1,
    )
    assert document["lasted_ms"] == 0.008 and document["services"] == ["shop"]
    assert "no verdict" in document["note"]
    assert document["findings"][0]["what"] == "has a parent that is not in the file"
    assert json.loads(run(capsys, "trace", "import", str(path), "-o", "json"))["trace"] == trace
    assert perfdb.collection("traces").count_documents({}) == 1 and perfdb.count_results() == 1
    listed = json.loads(run(capsys, "trace", "list", "-o", "json"))
    assert [(row["run"], row["origin"], row["spans"]) for row in listed] == [
        (trace, "imported", 2),
        ("ours", "run", 3),
    ]
    shown = json.loads(run(capsys, "trace", "show", trace[:14], "-o", "json"))
    assert shown["names"][0] == {"name": "op 1", "spans": 1, "total_ms": 0.008, "median_ms": 0.008}
    for arguments in (("layers", trace), ("compare", "ours", trace), ("show", trace, "--analysis", "layers")):
        assert "no verdict" in run(capsys, "trace", *arguments, code=2)
    out = tmp_path / "out.otlp.json"
    run(capsys, "trace", "export", trace, str(out))
    (resource,) = orjson.loads(out.read_bytes())["resourceSpans"]
    about = {each["key"]: each["value"]["stringValue"] for each in resource["resource"]["attributes"]}
    assert about == {"service.name": "shop", "inferbench.note": document["note"]}
    assert [span["spanId"] for span in resource["scopeSpans"][0]["spans"]] == [f"{1:016x}", f"{2:016x}"]
    bad = tmp_path / "bad.json"
    bad.write_bytes(otlp(otlp_span(1, 1, 5, 9)))
    assert "bad.json: a cycle of 1 spans" in run(capsys, "trace", "import", str(bad), code=2)
    assert "name traces, or say --older-than" in run(capsys, "trace", "delete", "--yes", code=2)
    assert "say --yes" in run(capsys, "trace", "delete", trace, code=2)
    run(capsys, "trace", "delete", trace, "ours", "--yes")
    assert counts(perfdb) == (0, 0) and perfdb.collection("traces").count_documents({}) == 0
    (row,) = json.loads(run(capsys, "trace", "list", "-o", "json"))
    assert row["run"] == "ours" and "spans were deleted on" in row["problem"]
    assert "were deleted on" in run(capsys, "trace", "export", "ours", str(out), code=2)
    assert "no traced run" in run(capsys, "stack", "resnet50", code=2)


def test_old_ones_of_both_kinds(perfdb: PerfDB, tmp_path: Path) -> None:
    """Those older than so many days, with spans; what is younger stays, and the results of all runs."""
    seed_run(perfdb, tmp_path, "old-run")
    seed_run(perfdb, tmp_path, "new-run")
    old, new = (import_one(perfdb, tmp_path, f"{end}.json", end) for end in (8_000, 9_000))
    past = {"$set": {"created_at": utc_now() - timedelta(days=8)}}
    perfdb.collection("results").update_one({"run_id": "old-run"}, past)
    perfdb.collection("traces").update_one({"_id": old}, past)
    assert sorted(stored_before(perfdb, 7)) == sorted([old, "old-run"])
    for trace in stored_before(perfdb, 7):
        delete(perfdb, trace)
    assert stored_before(perfdb, 7) == []
    assert {row["run"] for row in rows(perfdb) if row["bytes"]} == {new, "new-run"}
    assert perfdb.count_results() == 2 and counts(perfdb) == (2, 2)
    with pytest.raises(InputError, match="has no spans in PerfDB"):
        delete(perfdb, "old-run")
    with pytest.raises(InputError, match="no imported trace"):
        delete(perfdb, old)


def test_what_was_interrupted_leaves_nothing_whole_looking(perfdb: PerfDB, tmp_path: Path) -> None:
    """Spans without a document, content without an entry: not listed, gone after a day; what is younger is let be."""
    trace = import_one(perfdb, tmp_path)
    document = find_imported(perfdb, trace)
    assert document is not None
    perfdb.collection("traces").delete_one({"_id": trace})  # as if killed before it was written
    assert rows(perfdb) == []
    yesterday = ObjectId.from_datetime(utc_now() - timedelta(days=2))
    perfdb.collection("fs.chunks").insert_one({"files_id": yesterday, "n": 0, "data": b"half"})
    perfdb.collection("fs.chunks").insert_one({"files_id": ObjectId(), "n": 0, "data": b"under way"})
    delete_unfinished(perfdb)
    assert counts(perfdb) == (1, 2)
    begun_before(perfdb, document["file"]["id"], days=2)
    delete_unfinished(perfdb)
    assert counts(perfdb) == (0, 1)
    # A deletion that was killed behind the file ends when it is asked for again.
    trace = import_one(perfdb, tmp_path)
    perfdb.files.delete((find_imported(perfdb, trace) or {})["file"]["id"])
    assert delete(perfdb, trace) > 0 and rows(perfdb) == []


def test_a_deleted_result_leaves_no_file(perfdb: PerfDB, tmp_path: Path) -> None:
    """Raw samples, spans and whatever else it names go with it."""
    seed_run(perfdb, tmp_path, "ours")
    assert counts(perfdb) == (1, 1)
    assert perfdb.delete_result("ours") == 1
    assert counts(perfdb) == (0, 0)


def test_a_backup_has_them(perfdb: PerfDB, perfdb_server: str, tmp_path: Path, data_dir: Path) -> None:
    """Document, spans and index are there again."""
    trace = import_one(perfdb, tmp_path)
    assert backup(perfdb, tmp_path / "perfdb.tar.gz")["traces"] == 1
    name = "inferbench_test_restored_traces"
    uri = with_database(perfdb_server, name)
    clients.client(uri).drop_database(name)
    try:
        with PerfDB.connect(uri, data_dir) as empty:
            restore(empty, tmp_path / "perfdb.tar.gz")
            document = find_imported(empty, trace)
            assert document == find_imported(perfdb, trace) and document is not None
            assert empty.files.get(document["file"]["id"]) == perfdb.files.get(document["file"]["id"])
            assert "created" in empty.collection("traces").index_information()
    finally:
        clients.client(uri).drop_database(name)
