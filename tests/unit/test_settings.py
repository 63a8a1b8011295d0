"""Where data is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.errors import StorageError


def test_the_variable_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """INFERBENCH_DATA_DIR names the data directory; else it is the user's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv(settings.DATA_DIR, raising=False)
    assert settings.data_dir() == tmp_path / "xdg" / "inferbench"
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "mine"))
    assert settings.data_dir() == tmp_path / "mine"


def test_a_directory_that_can_not_be_written_names_the_remedy(tmp_path: Path) -> None:
    """Below a file no folder can be made; the message says what to set."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=rf"{tmp_path / 'file'}.*{settings.DATA_DIR} \(or --data-dir\)"):
        settings.writable(tmp_path / "file" / "data")


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    """Results and credentials are for their owner."""
    made = settings.writable(tmp_path / "data")
    assert made.stat().st_mode & 0o077 == 0
    assert list(made.iterdir()) == []
