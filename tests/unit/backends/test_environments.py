"""Environments of a backend's own: whole or not at all, made once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inferbench_tasks.backends.environments import COMPLETE, Environment, python
from inferbench_tasks.errors import ServerError, StorageError


def test_it_is_made_once_with_a_word_about_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first use says what is installed and how large it is; the second is silent."""
    made: list[Path] = []
    environment = Environment("empty", (), 15, finish=made.append)
    folder = environment.ensure(tmp_path)
    assert "Installing empty (about 15 MB, once)" in capsys.readouterr().err
    assert subprocess.run([python(folder), "-c", "pass"]).returncode == 0
    assert environment.ensure(tmp_path) == folder
    assert capsys.readouterr().err == ""
    assert made == [folder]


def test_one_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """Without its last file an environment does not count."""
    environment = Environment("empty", (), 15)
    folder = tmp_path / environment.folder_name
    (folder / "bin").mkdir(parents=True)
    (folder / "half").touch()
    environment.ensure(tmp_path)
    assert (folder / COMPLETE).exists()
    assert not (folder / "half").exists()


def test_a_failed_installation_is_told_and_not_kept(tmp_path: Path) -> None:
    """The reason is pip's own, and the next use tries again."""
    environment = Environment("broken", ("./does-not-exist",), 15)
    with pytest.raises(ServerError, match=r"(?s)Installing broken failed; .*does-not-exist"):
        environment.ensure(tmp_path)
    assert not (tmp_path / environment.folder_name / COMPLETE).exists()


def test_too_little_space_is_noticed_before(tmp_path: Path) -> None:
    """An environment that can't fit is not begun."""
    with pytest.raises(StorageError, match="No space for huge: 999999999 MB are needed"):
        Environment("huge", (), 999_999_999).ensure(tmp_path)


def test_other_requirements_are_another_environment() -> None:
    """A new version does not change an environment that something may run in."""
    assert Environment("a", ("x==1",), 1).folder_name != Environment("a", ("x==2",), 1).folder_name
