"""What a store offers is taken for nothing but what it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from inferbench_tasks.errors import StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Store, open_store
from inferbench_tasks.stores.fetch import Damaged, Fetch
from inferbench_tasks.stores.holdings import FETCHED, Holdings
from inferbench_tasks.stores.manifest import MAX_FILES, MAX_MANIFEST_BYTES, FileEntry, Manifest


class Offered:
    """A store's objects, made up."""

    def __init__(self, store: Store, files: list[dict[str, Any]], contents: dict[str, bytes]) -> None:
        text = json.dumps({"files": files}, sort_keys=True, separators=(",", ":")).encode()
        self.digest = hashlib.sha256(text).hexdigest()
        store.put(f"{MANIFESTS}/{self.digest}", text)
        for digest, blob in contents.items():
            store.put(f"{BLOBS}/{digest}", blob)


GOOD = hashlib.sha256(b"good").hexdigest()


@pytest.mark.parametrize(
    "file",
    [
        {"name": "../outside"}, {"name": "/etc/x"}, {"name": "a/../../x"}, {"name": ""}, {"name": "."},
        {"name": "a//b"}, {"name": "a\\b"}, {"name": "a\nb"}, {"name": "entry.json"}, {"bytes": -1}, {"bytes": "4"},
        {"mode": 0o4755}, {"mode": 0o777}, {"sha256": "../../x"}, {"sha256": "A" * 64}, {"bytes": 5}, {"bytes": 3},
        {"link": "/etc/passwd"}, {"sha256": hashlib.sha256(b"other").hexdigest()},
    ],
)  # fmt: skip
def test_a_hostile_manifest_writes_nothing(file: dict[str, Any], tmp_path: Path) -> None:
    """Names that lead out, links, modes, sizes that lie, contents that are others': refused, and no file is there."""
    store = open_store(f"file://{tmp_path}/shared", cast(PerfDB, None))
    files = [{"name": "x", "bytes": 4, "mode": 0o644, "sha256": GOOD, **file}]
    offered = Offered(store, files, {GOOD: b"good", hashlib.sha256(b"other").hexdigest(): b"oops"})
    worker = tmp_path / "worker"
    worker.mkdir()
    before = sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(worker))
    with pytest.raises(Damaged):
        Fetch(store, Holdings(worker))(offered.digest)
    assert sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(worker)) == before
    assert not (worker / FETCHED / offered.digest).exists()
    assert not [
        path for path in worker.rglob("*") if path.is_file() and path.name in ("x", "outside", "passwd")
    ]


@pytest.mark.parametrize("names", [["a", "a/b"], ["b", "a"], ["a", "a"], []])
def test_names_that_exclude_each_other_are_refused(names: list[str]) -> None:
    """A file that is another's folder, twice the same, out of order, none at all."""
    files = [{"name": name, "bytes": 4, "mode": 0o644, "sha256": GOOD} for name in names]
    text = json.dumps({"files": files}, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(StorageError, match="is none"):
        Manifest.read(text, hashlib.sha256(text).hexdigest())
    with pytest.raises(StorageError, match="damaged"):
        Manifest.read(text, GOOD)


def test_a_manifest_s_digest_is_that_of_its_text() -> None:
    """By hand: SHA-256 of canonical JSON."""
    manifest = Manifest(files=(FileEntry(name="x", bytes=4, mode=0o644, sha256=GOOD),))
    text = '{"files":[{"bytes":4,"mode":420,"name":"x","sha256":"' + GOOD + '"}]}'
    assert manifest.digest == hashlib.sha256(text.encode()).hexdigest()


def test_what_nobody_would_fetch_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of files one byte longer than others read is refused where it is made, with both sizes; one byte less
    goes there and back.
    """
    (tmp_path / "leader").mkdir()
    names = [f"{'n' * 200}{number}" for number in range(3)]
    for name in names:
        (tmp_path / "leader" / name).write_bytes(b"good")
    manifest = Manifest.of(tmp_path / "leader", names)
    for module in ("manifest", "fetch"):
        monkeypatch.setattr(f"inferbench_tasks.stores.{module}.MAX_MANIFEST_BYTES", len(manifest.content))
    store = open_store(f"file://{tmp_path}/shared", cast(PerfDB, None))
    offered = Offered(store, [file.model_dump() for file in manifest.files], {GOOD: b"good"})
    assert Fetch(store, Holdings(tmp_path / "worker"))(offered.digest).manifest == manifest
    (tmp_path / "leader" / names[0]).rename(tmp_path / "leader" / f"{names[0]}n")
    with pytest.raises(StorageError, match=r"3 files takes 0\.0 MiB, and 0 MiB are allowed"):
        Manifest.of(tmp_path / "leader", [f"{names[0]}n", *names[1:]])


def test_as_many_files_as_are_allowed_may_have_long_names() -> None:
    """Their list is one that others read."""
    file = FileEntry(name="n" * 480, bytes=10**9, mode=0o644, sha256=GOOD)
    assert len(Manifest(files=(file,)).content) * MAX_FILES <= MAX_MANIFEST_BYTES


def test_a_manifest_that_would_fill_the_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gigabyte under a manifest's name is refused by its size alone."""
    store = open_store(f"file://{tmp_path}/shared", cast(PerfDB, None))
    store.put(f"{MANIFESTS}/{GOOD}", b"")
    with (tmp_path / "shared" / MANIFESTS / GOOD).open("wb") as file:
        file.truncate(1 << 30)

    def read(*_: Any) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(store, "read", read)
    with pytest.raises(Damaged, match="larger"):
        Fetch(store, Holdings(tmp_path / "worker"))(GOOD)
