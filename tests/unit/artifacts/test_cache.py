"""Artefacts are made once, survive crashes and damage, and never appear half."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.artifacts import cache
from inferbench_tasks.artifacts.cache import ArtifactCache, key_of, tree_digest
from inferbench_tasks.errors import StorageError
from tests.unit.test_strangers_folder import nested

SETTINGS = {"model": "x", "recipe": 1}


def writer(calls: list[int], text: str = "weights") -> Any:
    """A maker that counts its calls."""

    def make(folder: Path) -> dict[str, Any]:
        calls.append(1)
        (folder / "model.bin").write_text(text)
        return {"parameters": 3}

    return make


def test_second_time_nothing_is_made(tmp_path: Path) -> None:
    """The same settings give the same entry, without calling the maker again."""
    calls: list[int] = []
    cache = ArtifactCache(tmp_path)
    first = cache.get(SETTINGS, writer(calls))
    second = cache.get(SETTINGS, writer(calls))
    assert (first.cached, second.cached, len(calls)) == (False, True, 1)
    assert first.digest == second.digest and second.facts == {"parameters": 3}


def test_other_settings_are_another_entry(tmp_path: Path) -> None:
    """A changed setting is never served from the old entry."""
    calls: list[int] = []
    cache = ArtifactCache(tmp_path)
    cache.get(SETTINGS, writer(calls))
    cache.get({**SETTINGS, "recipe": 2}, writer(calls))
    assert len(calls) == 2


@pytest.mark.parametrize("damage", ["changed", "truncated", "deleted", "added", "manifest"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    """Whatever happens to an entry's files is noticed by their digests."""
    calls: list[int] = []
    cache = ArtifactCache(tmp_path)
    entry = cache.get(SETTINGS, writer(calls))
    file = entry.folder / "model.bin"
    if damage == "changed":
        file.write_text("weightz")
    elif damage == "truncated":
        file.write_text("")
    elif damage == "deleted":
        file.unlink()
    elif damage == "added":
        (entry.folder / "more.bin").write_text("x")
    else:
        (entry.folder / "entry.json").write_text("{")
    assert cache.find(SETTINGS) is None
    again = cache.get(SETTINGS, writer(calls))
    assert len(calls) == 2 and (again.folder / "model.bin").read_text() == "weights"


def test_a_failing_maker_leaves_nothing(tmp_path: Path) -> None:
    """After an error there is neither an entry nor a half one."""

    def make(folder: Path) -> dict[str, Any]:
        (folder / "half").write_text("x")
        raise ValueError("no")

    cache = ArtifactCache(tmp_path)
    with pytest.raises(ValueError, match="no"):
        cache.get(SETTINGS, make)
    assert cache.find(SETTINGS) is None
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


def test_no_space_is_a_storage_error(tmp_path: Path) -> None:
    """A full disk is named, with the remedy."""

    def make(folder: Path) -> dict[str, Any]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StorageError, match=r"No space left.*--data-dir"):
        ArtifactCache(tmp_path).get(SETTINGS, make)


@pytest.mark.parametrize("inside", [True, False])
def test_only_what_the_cache_can_not_write_is_called_so(tmp_path: Path, inside: bool) -> None:
    """A lock of an environment that a sandbox may not write said that the cache was the trouble."""
    path = tmp_path / "cache" / "x" if inside else tmp_path / ".venv.lock"

    def make(folder: Path) -> dict[str, Any]:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with pytest.raises(StorageError if inside else PermissionError):
        ArtifactCache(tmp_path / "cache").get(SETTINGS, make)


def test_no_space_is_told_whatever_a_library_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """safetensors has an error of its own, PyTorch says only that writing failed; other errors stay what they are."""

    def make(text: str) -> Any:
        def fail(folder: Path) -> dict[str, Any]:
            raise RuntimeError(text)

        return fail

    with pytest.raises(StorageError, match=r"No space left.*--data-dir"):
        ArtifactCache(tmp_path).get(SETTINGS, make("I/O error: No space left on device (os error 28)"))
    with pytest.raises(RuntimeError, match="file write failed"):
        ArtifactCache(tmp_path).get(SETTINGS, make("file write failed"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(StorageError, match=r"No space left.*--data-dir"):
        ArtifactCache(tmp_path).get(SETTINGS, make("file write failed"))


CHILD = """
import sys, time
from pathlib import Path
from inferbench_tasks.artifacts import cache
from inferbench_tasks.artifacts.cache import ArtifactCache
root, log, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def make(folder):
    with open(log, "a") as file: file.write("made\\n")
    (folder / "model.bin").write_text("weights")
    print("making", flush=True)
    time.sleep(60 if mode == "hang" else 0.3)
    return {}
ArtifactCache(root).get({"model": "x", "recipe": 1}, make)
"""


def start(root: Path, log: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), str(log), mode], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    """Of two processes that want the same entry one makes it and both get it."""
    root, log = tmp_path / "cache", tmp_path / "log"
    children = [start(root, log, "short") for _ in range(2)]
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0, 0]
    assert log.read_text() == "made\n"


def test_a_killed_maker_leaves_no_entry(tmp_path: Path) -> None:
    """SIGKILL in the middle: the next one makes a whole entry and clears the rest away."""
    root, log = tmp_path / "cache", tmp_path / "log"
    child = start(root, log, "hang")
    assert child.stdout is not None
    assert child.stdout.readline() == "making\n"
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=10)
    child.stdout.close()
    cache = ArtifactCache(root)
    assert cache.find(SETTINGS) is None
    assert list(root.glob(".*.tmp-*"))
    entry = cache.get(SETTINGS, writer([]))
    assert (entry.folder / "model.bin").read_text() == "weights"
    assert not list(root.glob(".*.tmp-*"))


def test_digest_covers_names_and_contents(tmp_path: Path) -> None:
    """A renamed or changed file is another model."""
    (tmp_path / "a").write_text("1")
    before = tree_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = tree_digest(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({before, renamed, tree_digest(tmp_path)}) == 3


def test_key_ignores_the_order_of_settings() -> None:
    """Settings are a set of facts."""
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) != key_of({"a": 1, "b": 3})


def test_a_settled_file_is_read_once_and_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gigabytes are not hashed at every look; a change of the same size, with its old time set back, is seen."""
    monkeypatch.setattr(cache, "_SETTLED_NS", 0)
    read: list[Path] = []
    digest = cache._read_digest

    def counted(path: Path) -> str:
        read.append(path)
        return digest(path)

    monkeypatch.setattr(cache, "_read_digest", counted)
    path = tmp_path / "weights"
    path.write_bytes(b"a" * 100)
    before, times = cache.file_digest(path), path.stat()
    assert cache.file_digest(path) == before and len(read) == 1
    time.sleep(0.02)  # longer than the clock of the file system's times steps
    path.write_bytes(b"b" * 100)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.file_digest(path) != before and len(read) == 2


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "nested JSON", "other fields", "deep"])
def test_what_a_stranger_put_in_place_of_an_entry_is_made_again(tmp_path: Path, what: str) -> None:
    """A pipe is not waited for, no link is followed, and nothing without end is gone through."""
    calls: list[int] = []
    cache = ArtifactCache(tmp_path)
    entry = cache.get(SETTINGS, writer(calls))
    path = entry.folder / "entry.json"
    content = path.read_text()
    if what == "deep":
        nested(entry.folder, 1500)
    else:
        path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        (tmp_path / "elsewhere").write_text(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif what == "folder":
        path.mkdir()
    elif what == "nested JSON":
        path.write_text("[" * 100_000)
    elif what == "other fields":
        path.write_text('{"files": [], "facts": 1}')
    assert cache.find(SETTINGS) is None
    assert not cache.get(SETTINGS, writer(calls)).cached and cache.find(SETTINGS) is not None
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
