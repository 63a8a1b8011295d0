"""An artifact of many small files comes and goes several files at a time, and goes on where it was."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from inferbench_tasks.errors import CancelledError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, Store, open_store
from inferbench_tasks.stores.fetch import Damaged, Fetch
from inferbench_tasks.stores.holdings import FETCHED, Holding, Holdings
from inferbench_tasks.stores.manifest import Manifest
from inferbench_tasks.stores.several import AT_ONCE
from inferbench_tasks.stores.upload import Untrue, Upload

NUMBER = 2 * AT_ONCE


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty folder."""
    return open_store(f"file://{tmp_path}/shared", cast(PerfDB, None))


@pytest.fixture
def holding(tmp_path: Path) -> Holding:
    """So many files, and one whose content another has too."""
    root = tmp_path / "leader"
    root.mkdir()
    for number in range(NUMBER):
        (root / f"{number:03}.jpg").write_bytes(b"picture %d" % number)
    (root / "twice.jpg").write_bytes(b"picture 0")
    return Holding(root, Manifest.of(root, [path.name for path in root.iterdir()]))


@pytest.fixture
def stored(store: Store, holding: Holding) -> Holding:
    """They are in the store."""
    Upload(store, holding)(lambda done: None)
    return holding


def counted(store: Store, together: int = 1) -> Counter[str]:
    """How often each content is read from now on; each waits until so many others are read at the same time."""
    read, reads = store.read, Counter[str]()
    barrier = threading.Barrier(together, timeout=60)

    def reading(key: str, start: int = 0, length: int = -1) -> bytes:
        if key.startswith(BLOBS):
            barrier.wait()
            reads[key] += 1
        return read(key, start, length)

    store.read = reading  # type: ignore[method-assign]
    return reads


def test_they_come_several_at_a_time_and_each_once(store: Store, stored: Holding, tmp_path: Path) -> None:
    """One read of the store each, all contents right, progress to the end."""
    reads = counted(store, together=AT_ONCE)
    told: list[tuple[int, int]] = []
    fetch = Fetch(store, Holdings(tmp_path / "worker"), told=lambda done, total: told.append((done, total)))
    fetched = fetch(stored.manifest.digest)
    assert fetched.manifest == stored.manifest and set(reads.values()) == {1} and len(reads) == NUMBER
    for file in stored.manifest.files:
        assert (fetched.root / file.name).read_bytes() == (stored.root / file.name).read_bytes()
    assert told[-1][0] == told[-1][1] and len(told) == NUMBER


def test_they_go_several_at_a_time(store: Store, holding: Holding) -> None:
    """Each content once."""
    put, puts = store.put, list[str]()
    barrier = threading.Barrier(AT_ONCE, timeout=60)

    def putting(key: str, source: Path | bytes) -> None:
        if key.startswith(BLOBS):
            barrier.wait()
        puts.append(key)
        put(key, source)

    store.put = putting  # type: ignore[method-assign]
    done: list[int] = []
    Upload(store, holding)(done.append)
    assert len(puts) == len(set(puts)) == NUMBER + 1 and not puts[-1].startswith(BLOBS)
    assert done[-1] == sum(len(f"picture {number}") for number in range(NUMBER))


def test_a_cut_off_fetch_of_them_goes_on(store: Store, stored: Holding, tmp_path: Path) -> None:
    """What came is not read again; what was cut amid its writing is."""
    holdings = Holdings(tmp_path / "worker")
    told: list[int] = []
    with pytest.raises(CancelledError):
        Fetch(store, holdings, told=lambda done, total: told.append(done), cancelled=lambda: len(told) >= 3)(
            stored.manifest.digest
        )
    parts = tmp_path / "worker" / FETCHED / f".{stored.manifest.digest}.part"
    there = {path.name for path in parts.iterdir()} - {"promised"}
    cut = min(there)
    (parts / cut).write_bytes(bytes((parts / cut).stat().st_size))
    reads = counted(store)
    Fetch(store, holdings)(stored.manifest.digest)
    assert len(there) >= 3
    assert set(reads) == {
        f"{BLOBS}/{file.sha256}" for file in stored.manifest.files if file.sha256 not in there - {cut}
    }


def test_a_damaged_one_among_them_is_told(store: Store, stored: Holding, tmp_path: Path) -> None:
    """By its name; nothing of the artifact is there."""
    key = f"{BLOBS}/{hashlib.sha256(b'picture 7').hexdigest()}"
    (tmp_path / "shared" / key).write_bytes(b"picture 8")
    reports: list[str] = []
    with pytest.raises(Damaged, match=r"007\.jpg") as damaged:
        Fetch(store, Holdings(tmp_path / "worker"), report=reports.append)(stored.manifest.digest)
    assert damaged.value.key == key and len(reports) == 1
    assert not (tmp_path / "worker" / FETCHED / stored.manifest.digest).exists()


def test_an_untrue_one_among_them_is_not_stored(store: Store, holding: Holding) -> None:
    """Nor is the manifest."""
    (holding.root / "007.jpg").write_bytes(b"picture 8")
    with pytest.raises(Untrue, match=r"007\.jpg is not what its cache's manifest says"):
        Upload(store, holding)(lambda done: None)
    assert store.size(f"{BLOBS}/{hashlib.sha256(b'picture 7').hexdigest()}") is None
    assert store.size(f"manifests/{holding.manifest.digest}") is None
