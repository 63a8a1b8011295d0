"""A host that reads a store wrongly harms nobody else's copy: what it suspects is looked at by who has the artifact."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores import depot
from inferbench_tasks.stores.base import ARTIFACTS, BLOBS, Store, open_store
from inferbench_tasks.stores.depot import Depot
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import Ledger, Suspicion
from inferbench_tasks.stores.put import put, put_wanted
from tests.artifact_homes import WEIGHTS, content, digest_of, entry, sent

pytestmark = pytest.mark.integration
KEY = f"{BLOBS}/{hashlib.sha256(WEIGHTS).hexdigest()}"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the store."""
    monkeypatch.setenv(ARTIFACTS, f"file://{tmp_path}/shared")
    return tmp_path / "shared"


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Data directories: who made it, one with bad memory, one more."""
    for name in ("leader", "bad", "good"):
        (tmp_path / name).mkdir()
    return tmp_path / "leader", tmp_path / "bad", tmp_path / "good"


def opened_by_bad_memory(url: str, db: PerfDB) -> Store:
    """A store of which large objects never come as they are."""
    store = open_store(url, db)
    read = store.read

    def flipped(key: str, start: int = 0, length: int = -1) -> bytes:
        block = read(key, start, length)
        return bytes([block[0] ^ 1]) + block[1:] if len(block) > 1000 else block

    store.read = flipped  # type: ignore[method-assign]
    return store


def test_a_host_with_bad_memory_removes_nothing(
    perfdb: PerfDB, homes: tuple[Path, Path, Path], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody answers, and once a home has read the copy again, it is the very file that was put; another host
    fetches it meanwhile; the bad one is told that it is its own fault, and so is who asks about the artifact.
    """
    leader, bad, good = homes
    reference = sent(perfdb, leader, entry(leader))
    before = (shared / KEY).stat()
    with monkeypatch.context() as patch:
        patch.setattr(depot, "open_store", opened_by_bad_memory)
        with pytest.raises(StorageError, match=r"is not whole in file://.*as read here"):
            Depot(perfdb, bad, wait_s=0.1).receive(reference)
    assert content(Depot(perfdb, good, wait_s=0.1).receive(reference)) == b"graph" + WEIGHTS
    looks: list[str] = []

    def tell(done: float, total: float | None, text: str) -> None:
        if text.startswith("waiting"):
            looks.extend(put_wanted(perfdb, Holdings(leader), settings.home_id(leader)))

    with monkeypatch.context() as patch:
        patch.setattr(depot, "open_store", opened_by_bad_memory)
        with pytest.raises(StorageError, match="this host's memory"):
            Depot(perfdb, bad, told=tell).receive(reference)
    assert looks == [digest_of(reference)]
    after = (shared / KEY).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    known = Ledger(perfdb).get(digest_of(reference))
    assert known is not None and known.stored and known.suspicions == () and known.wanted_at is None
    assert [fault.what.endswith(", is whole") for fault in known.faults].count(True) == 1


def test_of_what_is_suspected_only_what_is_wrong_is_stored_again(
    perfdb: PerfDB, homes: tuple[Path, Path, Path], shared: Path
) -> None:
    """By a home whose own file is right; one whose file was changed too leaves the store as it is."""
    leader, _, _ = homes
    folder = entry(leader)
    digest = digest_of(sent(perfdb, leader, folder))
    graph = f"{BLOBS}/{hashlib.sha256(b'graph').hexdigest()}"
    url = f"file://{shared}"
    (shared / KEY).write_bytes(bytes(len(WEIGHTS)))
    whole = (shared / graph).stat().st_ino
    ledger = Ledger(perfdb)
    for key in (KEY, graph):
        ledger.suspect(digest, Suspicion(url=url, key=key, host="elsewhere"))
    assert put(perfdb, Holdings(leader), digest)
    assert (shared / KEY).read_bytes() == WEIGHTS and (shared / graph).stat().st_ino == whole
    known = ledger.get(digest)
    assert known is not None
    assert sorted(fault.what.partition(", ")[2] for fault in known.faults) == [
        "suspected by elsewhere, is whole",
        "suspected by elsewhere, was damaged, and is stored again",
    ]
    assert not put(perfdb, Holdings(leader), digest)
    weights = folder / "parts" / "weights.bin"
    (shared / KEY).write_bytes(bytes(len(WEIGHTS)))
    weights.write_bytes(os.urandom(len(WEIGHTS)))
    ledger.suspect(digest, Suspicion(url=url, key=KEY, host="elsewhere"))
    with pytest.raises(StorageError, match="not here any more"):
        put(perfdb, Holdings(leader), digest)
    assert (shared / KEY).read_bytes() == bytes(len(WEIGHTS))


def test_who_stored_in_between_is_not_asked_for_ever(
    perfdb: PerfDB, homes: tuple[Path, Path, Path], shared: Path
) -> None:
    """A wish for what is stored whole is none; one that is left over goes with the next look at it."""
    leader, _, _ = homes
    digest = digest_of(sent(perfdb, leader, entry(leader)))
    ledger = Ledger(perfdb)
    ledger.want(digest, "late")
    assert ledger.wanted_of(settings.home_id(leader)) == []
    suspicion = Suspicion(url="file:///of/an/earlier/time", key=KEY, host="late")
    ledger.suspect(digest, suspicion)
    assert put_wanted(perfdb, Holdings(leader), settings.home_id(leader)) == [digest]
    assert ledger.wanted_of(settings.home_id(leader)) == []
