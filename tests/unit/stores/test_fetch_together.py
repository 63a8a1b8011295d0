"""Several fetches on one host: of one artifact one waits for the other, of several none takes another's room."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from filelock import FileLock

from inferbench_tasks.artifacts.no_room import LASTS_S, why_no_room, write_down
from inferbench_tasks.errors import CancelledError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Store, open_store
from inferbench_tasks.stores.fetch import SPARE_BYTES, Fetch
from inferbench_tasks.stores.holdings import FETCHED, Holdings
from inferbench_tasks.stores.limit import CACHE_BYTES, make_room
from inferbench_tasks.stores.manifest import Manifest
from inferbench_tasks.stores.parts import promised_bytes

SIZE = 300_000
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty folder."""
    return open_store(f"file://{tmp_path}/shared", cast(PerfDB, None))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a host keeps what it fetched."""
    folder = tmp_path / "worker" / FETCHED
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def holdings(tmp_path: Path, root: Path) -> Holdings:
    """What that host has: nothing."""
    return Holdings(tmp_path / "worker")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end, so that no thread waits for ever."""
    event = threading.Event()
    yield event
    event.set()


def offered(store: Store, folder: Path) -> str:
    """An artifact of one file, stored."""
    folder.mkdir()
    (folder / "weights.bin").write_bytes(os.urandom(SIZE))
    manifest = Manifest.of(folder, ["weights.bin"])
    store.put(f"{BLOBS}/{manifest.files[0].sha256}", folder / "weights.bin")
    store.put(f"{MANIFESTS}/{manifest.digest}", manifest.content)
    return manifest.digest


def held_up(store: Store, released: threading.Event) -> tuple[Store, threading.Event]:
    """The same store, whose contents come once they are released; what is set once one was asked for."""
    slow, asked = open_store(store.url, store.db), threading.Event()
    read = slow.read

    def wait(key: str, start: int = 0, length: int = -1) -> bytes:
        if key.startswith(BLOBS):
            asked.set()
            released.wait()
        return read(key, start, length)

    slow.read = wait  # type: ignore[method-assign]
    return slow, asked


def test_who_waits_for_another_s_fetch_can_be_cancelled(store: Store, holdings: Holdings, root: Path) -> None:
    """Its job's end is seen while another process holds the lock."""
    looks: list[bool] = []

    def cancelled() -> bool:
        looks.append(len(looks) >= 2)
        return looks[-1]

    lock = FileLock(root / f".{'0' * 64}.lock", thread_local=False)
    with ThreadPoolExecutor(1) as another:
        another.submit(lock.acquire).result()
        with pytest.raises(CancelledError, match="another process"):
            Fetch(store, holdings, cancelled=cancelled)("0" * 64)
        another.submit(lock.release).result()
    assert looks == [False, False, True]


def test_two_do_not_take_the_same_room(
    store: Store,
    holdings: Holdings,
    root: Path,
    tmp_path: Path,
    released: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where one and a half have room: while one is being fetched the other is refused, and it is not afterwards."""
    first, second = offered(store, tmp_path / "a"), offered(store, tmp_path / "b")
    free = SPARE_BYTES + SIZE * 3 // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10 * free, 9 * free, free))
    slow, asked = held_up(store, released)
    rooms: list[int] = []
    with ThreadPoolExecutor() as pool:
        try:
            fetching = pool.submit(Fetch(slow, holdings), first)
            assert asked.wait(60)
            assert promised_bytes(root, besides=root / f".{second}.part") == SIZE
            with pytest.raises(StorageError, match="less 0 MB of others that are being fetched"):
                Fetch(store, holdings, room=rooms.append)(second)
            assert why_no_room(holdings.data_dir) == "", "it has room beside the other, once that is whole"
        finally:
            released.set()
        fetching.result()
    assert promised_bytes(root, besides=root / f".{second}.part") == 0
    assert Fetch(store, holdings, room=rooms.append)(second).manifest.digest == second
    assert rooms == [2 * SIZE, SIZE]


def test_a_host_without_room_says_so_until_it_has_some(
    store: Store, holdings: Holdings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is not full, and every job with that artifact would fail there: its workers take none for a while."""
    wanted, usage = offered(store, tmp_path / "a"), Usage(10 * SPARE_BYTES, 9 * SPARE_BYTES, SIZE // 2)
    later, data_dir = time.time() + 2 * LASTS_S, holdings.data_dir
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(StorageError, match="MB are free, less 0 MB of others"):
            Fetch(store, holdings)(wanted)
        assert "that a job needs have no room on the file system of" in why_no_room(data_dir)
        patch.setattr(time, "time", lambda: later)
        assert why_no_room(data_dir) == "", "jobs that need less are not kept off for good"
    write_down(data_dir, 1)
    assert why_no_room(data_dir) == "" and not list(data_dir.glob("cache/*no-room*"))
    write_down(data_dir, 10**18)
    assert not list(data_dir.glob("cache/*no-room*")), "that much no disk ever has"


def test_what_a_killed_fetch_was_promised_is_free(
    store: Store, holdings: Holdings, root: Path, tmp_path: Path
) -> None:
    """Its lock went with it."""
    digest = offered(store, tmp_path / "a")
    parts = root / f".{digest}.part"
    parts.mkdir()
    (parts / "promised").write_text(str(SIZE))
    assert promised_bytes(root, besides=root / ".other.part") == 0
    with FileLock(root / f".{digest}.lock"):
        assert promised_bytes(root, besides=root / ".other.part") == SIZE
        assert promised_bytes(root, besides=parts) == 0


def test_parts_count_within_the_bound(
    store: Store, holdings: Holdings, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched in part takes room too: for its sake what was used longest ago goes."""
    digest = offered(store, tmp_path / "a")
    Fetch(store, holdings)(digest)
    monkeypatch.setenv(CACHE_BYTES, str(2 * SIZE + 50_000))
    make_room(holdings, SIZE, set)
    assert (root / digest).is_dir()
    parts = root / ".cut-off.part"
    parts.mkdir()
    (parts / "weights").write_bytes(os.urandom(SIZE))
    make_room(holdings, SIZE, set)
    assert not (root / digest).exists()
