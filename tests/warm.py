"""A data directory as an earlier run leaves it: Airflow's migrated database, the ``digits`` model and its conversion.

Most tests of whole runs ask what happens on a machine that has run something before; making the model and migrating
a database are half of a short run's CPU. Made once for a whole suite, for all its processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from inferbench_tasks import settings
from inferbench_tasks.provider import metadata_db

DIGITS = """
name: digits
model: {kind: zoo, name: digits}
load: {arrivals: {kind: constant, rate_rps: 20}, duration_s: 0.5, warmup_s: 0, wait_for_quiet_s: 0}
"""
PARTS = ("airflow", "cache")


def warm(data_dir: Path, factory: pytest.TempPathFactory) -> None:
    """Copy what that run left into a data directory that nothing has run in yet."""
    source = _made(factory)
    for part in PARTS:
        shutil.copytree(source / part, data_dir / part, dirs_exist_ok=True)


def _made(factory: pytest.TempPathFactory) -> Path:
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "warm"
    with FileLock(str(folder) + ".lock"):
        if not folder.exists():
            making = base / "warm-making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            (making / "digits.yaml").write_text(DIGITS)
            environment = {
                **os.environ,
                settings.DATA_DIR: str(making),
                "INFERBENCH_INTERFERENCE": "note",
                "CI": "",
            }
            command = [sys.executable, "-m", "inferbench_tasks.cli.main"]
            for arguments in (["run", "--inline", str(making / "digits.yaml")], ["perfdb", "stop"]):
                process = subprocess.run(
                    [*command, *arguments], env=environment, capture_output=True, text=True, check=False
                )
                assert process.returncode == 0, process.stdout + process.stderr
            metadata_db.copy(making / "unused.db", making)
            making.rename(folder)
    return folder
