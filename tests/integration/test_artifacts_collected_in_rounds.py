"""A store of any size is collected: in rounds, whatever is damaged in it, and wherever artifacts were put before."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores import collect as collecting
from inferbench_tasks.stores.base import ARTIFACTS, BLOBS, MANIFESTS
from inferbench_tasks.stores.collect import collect
from inferbench_tasks.stores.folder_store import FolderStore
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import Ledger
from inferbench_tasks.stores.put import put_wanted
from tests.artifact_homes import digest_of, entry, run_told_of, sent

pytestmark = pytest.mark.integration


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the store."""
    monkeypatch.setenv(ARTIFACTS, f"file://{tmp_path}/shared")
    return tmp_path / "shared"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory."""
    (tmp_path / "leader").mkdir()
    return tmp_path / "leader"


@pytest.fixture
def references(perfdb: PerfDB, home: Path, shared: Path) -> list[str]:
    """Five artifacts, of which a result refers to the first."""
    made = [sent(perfdb, home, entry(home, os.urandom(1000))) for _ in range(5)]
    run_told_of(perfdb, "r0", made[0], "done")
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each object of the store was read."""
    counted: Counter[str] = Counter()
    read = FolderStore.read

    def counting(store: FolderStore, key: str, start: int = 0, length: int = -1) -> bytes:
        counted[key] += 1
        return read(store, key, start, length)

    monkeypatch.setattr(FolderStore, "read", counting)
    return counted


def named(folder: Path) -> list[str]:
    """The names of a folder's files."""
    return sorted(path.name for path in folder.iterdir())


def hurried(monkeypatch: pytest.MonkeyPatch, round_s: int) -> None:
    """A second goes by with each look at the clock."""
    seconds = count()
    monkeypatch.setattr(collecting, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(collecting, "ROUND_S", float(round_s))


def test_what_takes_longer_than_a_round_goes_in_several(
    perfdb: PerfDB, shared: Path, references: list[str], reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two objects a round: all goes in one call, the lock is given back in between, no manifest is read twice."""
    hurried(monkeypatch, 2)
    rounds: list[bool] = []
    lock = Ledger.lock

    def locked(ledger: Ledger) -> bool:
        rounds.append(ledger.locked())
        return lock(ledger)

    monkeypatch.setattr(Ledger, "lock", locked)
    stays = {each.digest: each.stays for each in collect(perfdb, timedelta(0))}
    assert stays == {
        digest_of(reference): "" if number else "a run in PerfDB refers to it"
        for number, reference in enumerate(references)
    }
    assert named(shared / MANIFESTS) == [digest_of(references[0])]
    assert len(named(shared / BLOBS)) == 2
    assert len(rounds) >= 4 and not any(rounds)
    assert max(reads.values()) == 1


def test_a_put_between_two_rounds_has_its_turn(
    perfdb: PerfDB, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round does not begin while it goes on; what was removed is told."""
    hurried(monkeypatch, 2)
    unlock = Ledger.unlock

    def unlocked(ledger: Ledger) -> None:
        ledger.begin_put(digest_of(references[0]))
        unlock(ledger)

    monkeypatch.setattr(Ledger, "unlock", unlocked)
    with pytest.raises(StorageError, match=r"being stored just now.* 2 objects were removed"):
        collect(perfdb, timedelta(0))
    assert len(Ledger(perfdb).all()) == 3


def test_a_round_without_any_progress_is_said(
    perfdb: PerfDB, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be the same the next time."""
    hurried(monkeypatch, -1)
    with pytest.raises(StorageError, match="nothing was removed"):
        collect(perfdb, timedelta(0))
    assert not Ledger(perfdb).locked()


def test_a_damaged_manifest_ends_no_collection(
    perfdb: PerfDB, home: Path, shared: Path, references: list[str]
) -> None:
    """Artifacts go, and contents stay, since nobody knows which it names; a home that has it is asked to store it
    again, and the next collection removes the contents too.
    """
    first = shared / MANIFESTS / digest_of(references[0])
    text = first.read_bytes()
    first.write_bytes(text.replace(b"model", b"m0del"))
    outcomes = {each.digest: each.stays for each in collect(perfdb, timedelta(0))}
    assert outcomes[digest_of(references[0])].endswith("no contents go from there before it is stored again")
    assert [outcomes[digest_of(reference)] for reference in references[1:]] == [""] * 4
    assert named(shared / MANIFESTS) == [first.name] and len(named(shared / BLOBS)) == 6
    assert put_wanted(perfdb, Holdings(home), settings.home_id(home)) == [first.name]
    assert first.read_bytes() == text
    assert [each.stays for each in collect(perfdb, timedelta(0))] == ["a run in PerfDB refers to it"]
    assert len(named(shared / BLOBS)) == 2


def test_where_artifacts_were_put_before_contents_go_too(
    perfdb: PerfDB, home: Path, shared: Path, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that this host no longer puts into is swept as its own."""
    monkeypatch.setenv(ARTIFACTS, f"file://{shared}-new")
    sent(perfdb, home, entry(home, os.urandom(1000)))
    collect(perfdb, timedelta(0))
    assert named(shared / MANIFESTS) == [digest_of(references[0])] and len(named(shared / BLOBS)) == 2
    assert named(Path(f"{shared}-new") / BLOBS) == []
