"""Temporary folders of children, also of those whose parent was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from inferbench_tasks.artifacts import scratch

MAKE = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from inferbench_tasks.artifacts.scratch import Scratch
print(Scratch().path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of temporary files, of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(path: Path) -> None:
    """Make it an hour old."""
    then = time.time() - 3600
    os.utime(path, (then, then))


def test_what_a_killed_process_left_is_removed_at_the_next_start(folder: Path) -> None:
    """While it lives its folder stays, however old; after SIGKILL it is gone, with all that is in it."""
    command = [sys.executable, "-c", MAKE, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        path = Path(process.stdout.readline().strip())
        (path / "deep").mkdir()
        (path / "deep" / "file").write_text("x")
        age(path)
        scratch.Scratch().remove()
        assert path.is_dir()
        process.kill()
    scratch.Scratch().remove()
    assert list(folder.iterdir()) == []


def test_what_is_anothers_stays(folder: Path) -> None:
    """Links, files and young folders of that name are left alone, and so is what a link points to."""
    target = folder / "target"
    (target / "kept").mkdir(parents=True)
    (folder / f"{scratch.PREFIX}link").symlink_to(target)
    (folder / f"{scratch.PREFIX}file").write_text("x")
    (folder / f"{scratch.PREFIX}young").mkdir()
    age(folder / f"{scratch.PREFIX}file")
    age(target)
    scratch.remove_left()
    assert len(list(folder.iterdir())) == 4 and (target / "kept").is_dir()


def test_a_folder_is_its_owners_and_removed_once(folder: Path) -> None:
    """Mode 700; removing it twice is removing it once."""
    made = scratch.Scratch()
    assert Path(made.path).stat().st_mode & 0o777 == 0o700
    made.remove()
    made.remove()
    assert list(folder.iterdir()) == []
