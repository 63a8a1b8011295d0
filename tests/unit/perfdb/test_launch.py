"""How the embedded server is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.perfdb import launch


def test_the_server_is_no_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker ends what carries its mark when its device's lease ends; the database serves everybody."""
    monkeypatch.setenv(settings.WORKER, "cpu-0")
    monkeypatch.setenv(settings.DATA_DIR, "/data")
    told = launch._run([sys.executable, "-c", "import os; print(sorted(os.environ))"], tmp_path).stdout
    assert settings.DATA_DIR in told and settings.WORKER not in told
