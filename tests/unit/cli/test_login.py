"""``inferbench login``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli.main import main
from inferbench_tasks.provider.system.config import environment, passwords


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--data-dir` sets it for its process, which is that of the tests to come."""
    monkeypatch.setenv(settings.DATA_DIR, os.environ[settings.DATA_DIR])


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def test_the_owner_sees_the_logins_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `up` drew and printed once; the files with it are mode 600 in a folder of mode 700."""
    home = tmp_path / "system"
    ports = {"port": 1, "broker_port": 2, "execution_port": 3}
    environment(home, **ports, dags=tmp_path, submissions=tmp_path, data_dir=tmp_path)
    assert run("--data-dir", str(tmp_path), "login", "--output", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["user"]: row["password"] for row in rows} == passwords(home)
    assert home.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o600}


def test_without_a_system_it_says_what_makes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing is drawn."""
    assert run("--data-dir", str(tmp_path), "login") == 2
    assert "`inferbench up` starts one" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
