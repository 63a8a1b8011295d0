"""Backup and restore of a real PerfDB."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from inferbench_tasks.brick_jobs.facts import BrickFacts
from inferbench_tasks.brick_jobs.known_bricks import network_of, put_bricks
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.hosts import HOSTS, LEADER
from inferbench_tasks.cluster.links import LINKS
from inferbench_tasks.cluster.store import DEVICES, WAITING, Cluster
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.perfdb import backup as module
from inferbench_tasks.perfdb import clients, deletions
from inferbench_tasks.perfdb.address import with_database
from inferbench_tasks.perfdb.backup import MOMENTARY, backup, restore
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.upkeep.clean import files_left
from tests.unit.perfdb.builders import begun_before, result

pytestmark = pytest.mark.integration


def test_what_was_backed_up_is_there_again(
    perfdb: PerfDB, perfdb_server: str, tmp_path: Path, data_dir: Path
) -> None:
    """Results, raw samples (several chunks, checked by SHA-256), bricks with their networks, and indexes; a second
    restore is refused."""
    samples = tmp_path / "samples.bin"
    samples.write_bytes(bytes(range(256)) * 12_000)
    perfdb.save_result(result("run-1"), samples)
    perfdb.save_result(result("run-2", load={"arrivals": {"kind": "poisson", "a.b$": 1.5}}))
    network = tmp_path / "network.onnx"
    network.write_bytes(b"network")
    shapeless: dict[str, Any] = {"inputs": (), "outputs": (), "weights": (), "flops": 1.0, "moved_bytes": 2.0}
    put_bricks(perfdb, [BrickFacts(key="a" * 64, operators=("Conv",), network=network, **shapeless)])
    counts = backup(perfdb, tmp_path / "perfdb.tar.gz")
    assert counts["results"] == 2 and counts["fs.files"] == 2 and counts["fs.chunks"] >= 4
    assert counts["bricks"] == 1
    name = "inferbench_test_restored"
    uri = with_database(perfdb_server, name)
    clients.client(uri).drop_database(name)
    try:
        with PerfDB.connect(uri, data_dir) as empty:
            assert restore(empty, tmp_path / "perfdb.tar.gz") == counts
            assert empty.get_result("run-1") == perfdb.get_result("run-1")
            assert empty.get_result("run-2") == perfdb.get_result("run-2")
            stored = empty.get_result("run-1").samples
            assert stored is not None and empty.files.get(stored) == samples.read_bytes()
            assert network_of(empty, "a" * 64) == b"network"
            names = set(empty.collection("results").index_information())
            assert names == set(perfdb.collection("results").index_information())
            with pytest.raises(InputError, match="not empty"):
                restore(empty, tmp_path / "perfdb.tar.gz")
    finally:
        clients.client(uri).drop_database(name)


def test_a_cleaning_beside_a_restore_takes_nothing(
    perfdb: PerfDB, perfdb_server: str, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running system cleans whenever it likes: between any two collections, files of two days ago stay whole."""
    stored = perfdb.files.put(b"samples", "samples.parquet", run_id="run-1")
    file = stored.model_copy(update={"id": begun_before(perfdb, stored.id, days=2)})
    perfdb.save_result(result("run-1", extensions={"trace": {"file": file.model_dump()}}))
    backup(perfdb, tmp_path / "perfdb.tar.gz")
    uri = with_database(perfdb_server, "inferbench_test_cleaned")
    clients.client(uri).drop_database("inferbench_test_cleaned")
    load, cleaned = module._load, []

    def then_clean(db: PerfDB, name: str, content: IO[bytes]) -> int:
        written = load(db, name, content)
        cleaned.append((name, files_left(db, dry_run=False)))
        return written

    monkeypatch.setattr(module, "_load", then_clean)
    try:
        with PerfDB.connect(uri, data_dir) as empty:
            restore(empty, tmp_path / "perfdb.tar.gz")
            assert [name for name, _ in cleaned][-2:] == ["fs.files", "fs.chunks"]
            assert not any(outcomes for _, outcomes in cleaned)
            assert empty.files.get(file) == b"samples"
    finally:
        clients.client(uri).drop_database("inferbench_test_cleaned")


def test_a_damaged_archive_writes_nothing(
    perfdb: PerfDB, perfdb_server: str, tmp_path: Path, data_dir: Path
) -> None:
    """One changed byte, a cut file, another file: refused before a document is written."""
    perfdb.save_result(result("run-1"))
    good = tmp_path / "good.tar.gz"
    backup(perfdb, good)
    name = "inferbench_test_damaged"
    uri = with_database(perfdb_server, name)
    plain = gzip.decompress(good.read_bytes())
    at = plain.index(b"resnet50")
    changed = tmp_path / "changed.tar.gz"
    changed.write_bytes(gzip.compress(plain[:at] + b"R" + plain[at + 1 :]))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(good.read_bytes()[:400])
    other = tmp_path / "other.tar.gz"
    other.write_text("no archive")
    try:
        with PerfDB.connect(uri, data_dir) as empty:
            for path, error in ((changed, PerfDBError), (cut, InputError), (other, InputError)):
                with pytest.raises(error):
                    restore(empty, path)
            assert empty.count_results() == 0
    finally:
        clients.client(uri).drop_database(name)


@pytest.mark.parametrize("by_a_version_before", [False, True])
def test_what_is_restored_stays_though_its_deletion_was_killed(
    by_a_version_before: bool,
    perfdb: PerfDB,
    perfdb_server: str,
    tmp_path: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deletion that was begun before the backup is in no archive, or of none restored; a database with such deletions
    is not empty."""
    perfdb.save_result(result("run-1"))
    (raw,) = perfdb.collection("results").find()
    begun: dict[str, Any] = {
        "_id": f"results/{raw['_id']}", "collection": "results", "document": raw["_id"], "run_id": "run-1",
        "attempt": 1, "files": [], "remedies": [], "begun_at": perfdb.now() - timedelta(days=1),
    }  # fmt: skip
    perfdb.collection(deletions.COLLECTION).insert_one(begun)
    with monkeypatch.context() as patch:
        if by_a_version_before:
            patch.setattr(module, "NOT_KEPT", MOMENTARY)
        counts = backup(perfdb, tmp_path / "perfdb.tar.gz")
    assert (deletions.COLLECTION in counts) is by_a_version_before
    uri = with_database(perfdb_server, "inferbench_test_begun")
    clients.client(uri).drop_database("inferbench_test_begun")
    try:
        with PerfDB.connect(uri, data_dir) as empty:
            empty.collection(deletions.COLLECTION).insert_one(begun)
            with pytest.raises(InputError, match="not empty .deletions: 1"):
                restore(empty, tmp_path / "perfdb.tar.gz")
            empty.collection(deletions.COLLECTION).delete_many({})
            assert deletions.COLLECTION not in restore(empty, tmp_path / "perfdb.tar.gz")
            files_left(empty, dry_run=False)
            assert empty.get_result("run-1") == perfdb.get_result("run-1")
    finally:
        clients.client(uri).drop_database("inferbench_test_begun")


def test_a_running_system_can_be_restored_into(
    perfdb: PerfDB, perfdb_server: str, tmp_path: Path, data_dir: Path
) -> None:
    """Devices, hosts, links, waiting jobs are the running cluster's: none in the archive, none in a restore's way."""
    perfdb.save_result(result("run-1"))
    cluster = Cluster(perfdb)
    cluster.register(Device(device_id="old", device_type="cpu", name="cpu", host="old"))
    name = "inferbench_test_running"
    uri = with_database(perfdb_server, name)
    clients.client(uri).drop_database(name)
    try:
        assert {DEVICES, WAITING, HOSTS, LEADER, LINKS} == MOMENTARY
        assert not MOMENTARY & set(backup(perfdb, tmp_path / "perfdb.tar.gz"))
        with PerfDB.connect(uri, data_dir) as running:
            Cluster(running).register(Device(device_id="new", device_type="cpu", name="cpu", host="new"))
            assert restore(running, tmp_path / "perfdb.tar.gz")["results"] == 1
            assert [device.device_id for device in Cluster(running).devices()] == ["new"]
    finally:
        clients.client(uri).drop_database(name)
