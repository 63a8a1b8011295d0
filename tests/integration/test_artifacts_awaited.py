"""Who waits for an artifact waits as long as it is being stored, and no longer."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores import depot, under_way
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.gridfs_store import GridFSStore
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import COLLECTION, Ledger
from inferbench_tasks.stores.put import put, put_wanted
from tests.artifact_homes import WEIGHTS, content, digest_of, entry

pytestmark = pytest.mark.integration


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Two data directories."""
    for name in ("leader", "worker"):
        (tmp_path / name).mkdir()
    return tmp_path / "leader", tmp_path / "worker"


def made(db: PerfDB, home: Path, weights: bytes = WEIGHTS) -> str:
    """The reference of a model that its home has, and no store."""
    depot = Depot(db, home)
    reference = depot.send(str(entry(home, weights) / "model.onnx"))
    depot.flush()
    return reference


def test_a_put_that_takes_longer_than_anybody_waits_is_waited_for(
    perfdb: PerfDB, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty looks at 0.01 s each, of which a tenth is allowed where nobody stores it."""
    leader, worker = homes
    reference = made(perfdb, leader)
    monkeypatch.setattr(depot, "LOOK_S", 0.01)
    looks: list[bool] = []
    being_put = Ledger.being_put

    def looked(ledger: Ledger, digest: str) -> bool:
        looks.append(being_put(ledger, digest))
        if len(looks) == 20:
            put_wanted(perfdb, Holdings(leader), settings.home_id(leader))
        return looks[-1]

    monkeypatch.setattr(Ledger, "being_put", looked)
    Ledger(perfdb).begin_put(digest_of(reference))
    path = Depot(perfdb, worker, wait_s=0.02).receive(reference)
    assert content(path) == b"graph" + WEIGHTS and looks == [True] * 20


def test_a_put_that_was_killed_is_not_waited_for(perfdb: PerfDB, homes: tuple[Path, Path]) -> None:
    """Its mark is old."""
    leader, worker = homes
    reference = made(perfdb, leader)
    long_ago = {"$set": {"putting_at": datetime(2001, 1, 1, tzinfo=UTC)}}
    perfdb.collection(COLLECTION).update_one({"_id": digest_of(reference)}, long_ago)
    with pytest.raises(StorageError, match="did not store it"):
        Depot(perfdb, worker, wait_s=0.1).receive(reference)


def test_one_large_object_is_marked_all_the_time(
    perfdb: PerfDB, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a single one is on its way the mark is renewed; afterwards there is none."""
    leader, _ = homes
    digest = digest_of(made(perfdb, leader))
    monkeypatch.setattr(under_way, "BEAT_S", 0.01)
    store_put = GridFSStore.put
    marks: list[Any] = []

    def mark() -> Any:
        document = perfdb.collection(COLLECTION).find_one({"_id": digest})
        assert document is not None
        return document.get("putting_at")

    def slowly(store: GridFSStore, key: str, source: Path | bytes) -> None:
        marks.append(mark())
        while mark() == marks[-1]:
            time.sleep(0.01)
        store_put(store, key, source)

    monkeypatch.setattr(GridFSStore, "put", slowly)
    assert put(perfdb, Holdings(leader), digest)
    assert len(marks) == 3 and None not in marks and mark() is None


def test_one_that_cannot_be_stored_holds_up_no_other(
    perfdb: PerfDB, homes: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that are waited for are marked from the first on; after an error the others are stored, and it is raised."""
    leader, _ = homes
    digests = [digest_of(made(perfdb, leader, bytes([number]) * 1000)) for number in range(3)]
    false = entry(leader, b"false" * 1000)
    about = json.loads((false / "entry.json").read_text())
    about["files"]["model.onnx"] = "0" * 64
    (false / "entry.json").write_text(json.dumps(about))
    untrue = Depot(perfdb, leader)
    wrong = digest_of(untrue.send(str(false)))
    untrue.flush()
    ledger = Ledger(perfdb)
    for digest in (*digests, wrong):
        ledger.want(digest, "worker")
    marked: list[list[bool]] = []
    store_put = GridFSStore.put

    def put_(store: GridFSStore, key: str, source: Path | bytes) -> None:
        marked.append([ledger.being_put(digest) for digest in digests])
        store_put(store, key, source)

    monkeypatch.setattr(GridFSStore, "put", put_)
    with pytest.raises(StorageError, match="not what its cache's manifest says"):
        put_wanted(perfdb, Holdings(leader), settings.home_id(leader))
    assert all(known is not None and known.stored for known in map(ledger.get, digests))
    assert marked[0] == [True] * 3 and ledger.puts() == 0
    assert [known.digest for known in ledger.wanted_of(settings.home_id(leader))] == [wrong]
