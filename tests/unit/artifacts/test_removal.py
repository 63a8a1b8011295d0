"""Folders that go at once, whatever a stranger's process made of them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from inferbench_tasks.artifacts.removal import remove_doomed, remove_folder
from tests.unit.test_strangers_folder import nested


def test_a_deep_folder_goes(tmp_path: Path) -> None:
    """However many folders are nested, and whatever removal left of it before."""
    for name in ("run", ".doomed-1-run", ".doomed-2-run"):
        (tmp_path / name).mkdir()
        nested(tmp_path / name, 1500)
    (tmp_path / ".doomed-3").symlink_to("run")
    remove_folder(tmp_path / "run")
    remove_doomed(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither it nor what it names goes; the error says why."""
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    with pytest.raises(OSError, match="a link stands there"):
        remove_folder(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "run").is_dir()


def test_one_that_stays_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be removed is logged with why, and the others go."""
    for number in range(3):
        (tmp_path / f".doomed-{number}" / "in").mkdir(parents=True)
    rmdir = os.rmdir

    def refusing(path: str | Path, **kw: int | None) -> None:
        if Path(path).name == ".doomed-1":
            raise PermissionError(1, "Operation not permitted", str(path))
        rmdir(path, **kw)

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, "rmdir", refusing)
        remove_doomed(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".doomed-1"]
    assert "Operation not permitted" in caplog.text
