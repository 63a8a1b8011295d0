"""What is collected of artifacts, by a real PerfDB: what a result refers to is never lost, whoever stores there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import ARTIFACTS, MANIFESTS, OWNERS, open_store
from inferbench_tasks.stores.collect import collect
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import COLLECTION, Ledger
from inferbench_tasks.stores.put import put
from tests.artifact_homes import content, digest_of, entry, run_told_of, sent
from tests.databases import Databases

pytestmark = pytest.mark.integration
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Two data directories."""
    for name in ("leader", "worker"):
        (tmp_path / name).mkdir()
    return tmp_path / "leader", tmp_path / "worker"


@pytest.fixture
def collected(perfdb: PerfDB, homes: tuple[Path, Path]) -> tuple[PerfDB, list[str]]:
    """Three artifacts that share a file, used long ago: of a result, of a run under way, of nobody."""
    leader, _ = homes
    references = []
    for number in range(3):
        folder = entry(leader, os.urandom(1000) + bytes([number]))
        references.append(sent(perfdb, leader, folder))
    run_told_of(perfdb, "r0", references[0], "done")
    run_told_of(perfdb, "r1", references[1], "running")
    return perfdb, references


def test_what_a_result_refers_to_is_never_lost(
    collected: tuple[PerfDB, list[str]], homes: tuple[Path, Path]
) -> None:
    """Without any grace time, again and again: another host still gets it; only what nobody refers to is gone."""
    db, references = collected
    for _ in range(2):
        outcomes = {outcome.digest: outcome.stays for outcome in collect(db, timedelta(0))}
        kept = {outcomes[digest_of(reference)] for reference in references[:2]}
        assert kept == {"a run in PerfDB refers to it"}
    assert digest_of(references[2]) not in outcomes
    _, worker = homes
    for reference in references[:2]:
        assert content(Depot(db, worker, wait_s=0.1).receive(reference)).startswith(b"graph")
    with pytest.raises(StorageError, match="nobody is known"):
        Depot(db, worker, wait_s=0.1).receive(references[2])
    keys = {item.key for item in open_store("gridfs:", db).objects()}
    assert len(keys) == 2 + 3  # two manifests; two weights and the graph that all shared


def test_what_a_restored_perfdb_s_ledger_lacks_stays_where_a_run_needs_it(
    collected: tuple[PerfDB, list[str]],
) -> None:
    """Its manifest and its contents, round after round; what neither ledger nor runs know goes."""
    db, references = collected
    lost = [digest_of(references[0]), digest_of(references[2])]
    assert db.collection(COLLECTION).delete_many({"_id": {"$in": lost}}).deleted_count == 2
    for _ in range(2):
        collect(db, timedelta(0))
    keys = {item.key for item in open_store("gridfs:", db).objects()}
    manifests = {key for key in keys if key.startswith(MANIFESTS)}
    assert manifests == {f"{MANIFESTS}/{digest_of(reference)}" for reference in references[:2]}
    assert len(keys - manifests) == 3  # two weights and the graph that both share


def test_within_the_grace_time_nothing_goes(collected: tuple[PerfDB, list[str]]) -> None:
    """And a dry run removes nothing whatever the time."""
    db, _ = collected
    before = {item.key for item in open_store("gridfs:", db).objects()}
    assert [o.stays for o in collect(db, timedelta(hours=1))].count("it was used within the grace time") == 1
    assert [o.stays for o in collect(db, timedelta(0), dry_run=True)].count("") == 1
    assert {item.key for item in open_store("gridfs:", db).objects()} == before


def test_collecting_and_putting_exclude_each_other(
    collected: tuple[PerfDB, list[str]], homes: tuple[Path, Path]
) -> None:
    """While something is being stored nothing is collected; while somebody collects a put waits."""
    db, references = collected
    ledger = Ledger(db)
    ledger.begin_put(digest_of(references[0]))
    with pytest.raises(StorageError, match="being stored"):
        collect(db, timedelta(0))
    ledger.end_put(digest_of(references[0]))
    assert ledger.lock() and not ledger.lock()
    with pytest.raises(StorageError, match="Somebody else"):
        collect(db, timedelta(0))
    waits: list[int] = []

    def cancelled() -> bool:
        waits.append(1)
        ledger.unlock()
        return False

    leader, _ = homes
    db.collection(COLLECTION).update_one({"_id": digest_of(references[2])}, {"$set": {"stored": []}})
    assert put(db, Holdings(leader), digest_of(references[2]), cancelled=cancelled)
    assert waits and ledger.puts() == 0


@pytest.fixture
def other_perfdb(databases: Databases, data_dir: Path) -> Iterator[PerfDB]:
    """A second PerfDB."""
    uri = databases.take()
    yield PerfDB.connect(uri, data_dir)
    databases.give_back(uri)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the store of both."""
    monkeypatch.setenv(ARTIFACTS, f"file://{tmp_path}/shared")
    return tmp_path / "shared"


def used_long_ago(db: PerfDB) -> None:
    """All its artifacts."""
    db.collection(COLLECTION).update_many({"used_at": {"$exists": True}}, {"$set": {"used_at": LONG_AGO}})


def test_of_two_perfdbs_neither_removes_what_the_other_needs(
    perfdb: PerfDB, other_perfdb: PerfDB, homes: tuple[Path, Path], shared: Path
) -> None:
    """Neither collects in a store that both put into, and each is told what to do; once the other's mark is removed,
    as of a PerfDB that is gone, it does again.
    """
    leader, worker = homes
    staged = sent(perfdb, leader, entry(leader, os.urandom(1000)))
    produced = sent(other_perfdb, worker, entry(worker, os.urandom(1000)))
    run_told_of(other_perfdb, "r0", produced, "done")
    before = sorted(path for path in shared.rglob("*") if path.is_file())
    for db in (perfdb, other_perfdb):
        for dry_run in (True, False):
            with pytest.raises(StorageError, match=rf"{ARTIFACTS}=file://.*/shared/NAME") as refused:
                collect(db, timedelta(0), dry_run=dry_run)
    assert sorted(path for path in shared.rglob("*") if path.is_file()) == before
    mark = shared / OWNERS / Ledger(perfdb).owner()
    assert str(refused.value).endswith(f"object file://{mark}.")
    mark.unlink()
    collect(other_perfdb, timedelta(0))
    assert [path.name for path in (shared / MANIFESTS).iterdir()] == [digest_of(produced)]
    assert digest_of(staged) != digest_of(produced)


def test_clocks_of_hosts_do_not_matter(
    collected: tuple[PerfDB, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose clock is two hours ahead sees what is being stored, and who collects, and what is young."""
    db, references = collected

    by_this_host = time.time
    monkeypatch.setattr(time, "time", lambda: by_this_host() + 7200)
    ledger, before = Ledger(db), {item.key for item in open_store("gridfs:", db).objects()}
    ledger.begin_put(digest_of(references[0]))
    assert ledger.puts() == 1 and ledger.being_put(digest_of(references[0]))
    ledger.end_put(digest_of(references[0]))
    assert ledger.lock() and ledger.locked() and not ledger.lock()
    ledger.unlock()
    assert "it was used within the grace time" in [each.stays for each in collect(db, timedelta(hours=1))]
    assert {item.key for item in open_store("gridfs:", db).objects()} == before


def test_a_store_of_an_earlier_version_is_claimed_first(
    perfdb: PerfDB, other_perfdb: PerfDB, homes: tuple[Path, Path], shared: Path
) -> None:
    """It has no marks. Who looks first claims it and removes nothing within the grace time, so that another has the
    time to store something, and to be seen.
    """
    leader, worker = homes
    sent(perfdb, leader, entry(leader, os.urandom(1000)))
    produced = sent(other_perfdb, worker, entry(worker, os.urandom(1000)))
    for mark in (shared / OWNERS).iterdir():
        mark.unlink()
    for path in shared.rglob("*"):
        os.utime(path, (1000, 1000))
    for db in (perfdb, other_perfdb):
        used_long_ago(db)
    assert [each.stays for each in collect(perfdb, timedelta(hours=1), dry_run=True)] == [
        f"this PerfDB's mark in file://{shared} is not as old as the grace time"
    ]
    assert not list((shared / OWNERS).iterdir())
    assert "this PerfDB's mark" in collect(perfdb, timedelta(hours=1))[0].stays
    assert (shared / MANIFESTS / digest_of(produced)).is_file()
    put(other_perfdb, Holdings(worker), digest_of(produced))
    with pytest.raises(StorageError, match="not this PerfDB's"):
        collect(perfdb, timedelta(hours=1))
    (shared / OWNERS / Ledger(other_perfdb).owner()).unlink()
    os.utime(shared / OWNERS / Ledger(perfdb).owner(), (1000, 1000))
    assert [each.stays for each in collect(perfdb, timedelta(hours=1))] == [""]


def test_a_store_that_is_used_no_more_keeps_what_another_needs(
    perfdb: PerfDB,
    other_perfdb: PerfDB,
    homes: tuple[Path, Path],
    shared: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who moved to a folder of its own collects there; what it has in the old one stays."""
    leader, worker = homes
    staged = sent(perfdb, leader, entry(leader, os.urandom(1000)))
    sent(other_perfdb, worker, entry(worker, os.urandom(1000)))
    monkeypatch.setenv(ARTIFACTS, f"file://{shared}/staging")
    moved = sent(perfdb, leader, entry(leader, os.urandom(1000)))
    stays = {each.digest: each.stays for each in collect(perfdb, timedelta(0))}
    assert stays[digest_of(moved)] == ""
    assert stays[digest_of(staged)] == f"nothing is collected in file://{shared}, where it is too"
    assert (shared / MANIFESTS / digest_of(staged)).is_file()
    assert not list((shared / "staging" / MANIFESTS).iterdir())
