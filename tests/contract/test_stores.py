"""One suite over every artifact store: what is put is there once, whole, for any host, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from inferbench_tasks.errors import InputError, StorageError, UnknownKindError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, OWNERS, STORES, Missing, Store, open_store

pytestmark = pytest.mark.integration
#: More than a chunk of GridFS.
CONTENT = os.urandom(5 << 20)


def key_of(content: bytes, kind: str = BLOBS) -> str:
    return f"{kind}/{hashlib.sha256(content).hexdigest()}"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a real S3 server (moto's), in a process of its own: its handlers are no part of the test."""
    program = (
        "import sys, time\nfrom moto.server import ThreadedMotoServer\n"
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False)\nserver.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\nsys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


@pytest.fixture(params=["gridfs", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Each kind, empty."""
    url = {"gridfs": "gridfs:", "file": f"file://{tmp_path}/shared%20folder"}.get(request.param)
    db: PerfDB = request.getfixturevalue("perfdb") if request.param == "gridfs" else cast(PerfDB, None)
    if url is None:
        bucket = f"b-{uuid.uuid4().hex[:12]}"
        for name, value in (("ENDPOINT_URL", request.getfixturevalue("s3")), ("DEFAULT_REGION", "us-east-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        import fsspec

        fsspec.filesystem("s3", skip_instance_cache=True).mkdir(bucket)
        url = f"s3://{bucket}/inferbench"
    return open_store(url, db)


def test_what_is_put_is_read_in_any_parts(store: Store, tmp_path: Path) -> None:
    """From bytes and from a file; by ranges over the borders of chunks, beyond the end, and nothing."""
    path = tmp_path / "model.bin"
    path.write_bytes(CONTENT)
    key = key_of(CONTENT)
    assert store.size(key) is None
    with pytest.raises(Missing):
        store.read(key)
    store.put(key, path)
    assert store.size(key) == len(CONTENT)
    assert store.read(key) == CONTENT
    for start, length in [
        (0, 10),
        (4 << 20, 1),
        ((4 << 20) - 5, 10),
        (len(CONTENT) - 3, 100),
        (0, 0),
        (7, 5 << 20),
    ]:
        assert store.read(key, start, length) == CONTENT[start : start + length], (start, length)
    assert store.read(key, len(CONTENT) + 5, 10) == b""
    store.put(key_of(b""), b"")
    assert store.size(key_of(b"")) == 0 and store.read(key_of(b"")) == b""
    assert not list(tmp_path.rglob(".part-*"))


def test_it_is_put_once_and_listed(store: Store) -> None:
    """Again changes nothing; the list has keys, sizes and times; what is deleted is gone, twice deleted too."""
    store.put(key_of(b"one"), b"one")
    store.put(key_of(b"a list", MANIFESTS), b"a list")
    listed = {item.key: item for item in store.objects()}
    assert {key: item.bytes for key, item in listed.items()} == {
        key_of(b"one"): 3,
        key_of(b"a list", MANIFESTS): 6,
    }
    store.put(key_of(b"one"), b"one")
    assert sorted(item.key for item in store.objects()) == sorted(listed)
    for _ in range(2):
        store.delete(key_of(b"one"))
    assert store.size(key_of(b"one")) is None
    assert [item.key for item in store.objects()] == [key_of(b"a list", MANIFESTS)]


def test_times_are_by_the_clock_of_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host stores whose clock is a day ahead is as old as what any other stores, and leaves nothing beside."""
    by_this_host = time.time
    monkeypatch.setattr(time, "time", lambda: by_this_host() + 86_400)
    store.put(key_of(b"one"), b"one")
    before_s = store.now_s()
    (item,) = store.objects()
    assert -2 < before_s - item.stored_s < 3600
    assert store.now_s() >= before_s


def test_marks_are_listed_alone(store: Store) -> None:
    """Those of PerfDBs among much else, by their keys."""
    assert not list(store.owners())
    store.put(key_of(b"one"), b"one")
    assert not list(store.owners())
    store.put(key_of(b"mine", OWNERS), b"a host")
    assert [item.key for item in store.owners()] == [key_of(b"mine", OWNERS)]
    assert {item.key for item in store.objects()} == {key_of(b"one"), key_of(b"mine", OWNERS)}


def test_many_put_and_read_at_once(store: Store, tmp_path: Path) -> None:
    """Eight writers of one object and eight readers: whoever sees it sees all of it."""
    path, key = tmp_path / "x", key_of(CONTENT)
    path.write_bytes(CONTENT)
    start = threading.Barrier(16)

    def write() -> str:
        start.wait()
        store.put(key, path)
        return "written"

    def read() -> str:
        start.wait()
        try:
            return "whole" if store.read(key) == CONTENT else "BROKEN"
        except Missing:
            return "missing"

    with ThreadPoolExecutor(16) as pool:
        outcomes = [future.result() for future in [pool.submit(f) for f in (write, read) * 8]]
    assert set(outcomes) <= {"written", "whole", "missing"}
    assert store.read(key) == CONTENT
    store.delete(key)
    assert store.size(key) is None and not list(store.objects())


def test_what_cannot_be_read_is_said(store: Store, tmp_path: Path) -> None:
    """A source that is not there is a StorageError, and leaves nothing."""
    with pytest.raises((StorageError, FileNotFoundError)):
        store.put(key_of(b"gone"), tmp_path / "gone")
    assert not list(store.objects())


def test_every_kind_is_tested() -> None:
    """The suite has the kinds of the registry; gs has no server that can be started here."""
    assert set(STORES) == {"gridfs", "file", "s3", "gs"}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("/shared", "a URL is needed"),
        ("file://host/shared", "no folder"),
        ("file:relative", "no folder"),
        ("gridfs://elsewhere", "PerfDB's own"),
        ("s3://", "no bucket"),
        ("s3://key:secret@bucket/x", "without a login"),
    ],
)
def test_what_is_no_store_is_refused(url: str, reason: str) -> None:
    """With what would be one."""
    with pytest.raises(InputError, match=reason):
        open_store(url, cast(PerfDB, None))


def test_an_unknown_kind_names_the_known() -> None:
    """As every registry does."""
    with pytest.raises(UnknownKindError, match="known: file, gridfs, gs, s3"):
        open_store("ftp://host/x", cast(PerfDB, None))
