"""A data directory as an earlier run leaves it: Airflow's migrated database, the ``digits`` model and its conversion.

Most tests of whole runs ask what happens on a machine that has run something before; making the model and migrating
a database are half of a short run's CPU. Made once for a whole suite, for all its processes: in ``scripts/test.sh``
for all its parts, by a folder that they share.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.provider import metadata_db
from tests.made_once import made_once, shared_folder

DIGITS = """
name: digits
model: {kind: zoo, name: digits}
load: {arrivals: {kind: constant, rate_rps: 20}, duration_s: 2, warmup_s: 0, wait_for_quiet_s: 0}
"""


def warm(data_dir: Path, factory: pytest.TempPathFactory) -> None:
    """Copy what that run left into a data directory that nothing has run in yet."""
    made = made_once(_base(factory), "warm", _run)
    shutil.copytree(made / "cache", data_dir / "cache", dirs_exist_ok=True)
    metadata(data_dir, factory)


def metadata(data_dir: Path, factory: pytest.TempPathFactory) -> None:
    """Copy Airflow's migrated database alone, the one that new systems and runs of a data directory copy in turn."""
    made = made_once(_base(factory), "metadata", _migrate)
    shutil.copytree(made / "airflow", data_dir / "airflow", dirs_exist_ok=True)


def ceilings(data_dir: Path, factory: pytest.TempPathFactory) -> None:
    """Copy what this machine's senders can do alone: the next load like that run's needs not measure it again."""
    made = made_once(_base(factory), "warm", _run)
    shutil.copytree(made / "cache" / "ceilings", data_dir / "cache" / "ceilings")


def _migrate(making: Path) -> None:
    metadata_db.copy(making / "unused.db", making)


def _run(making: Path) -> None:
    (making / "digits.yaml").write_text(DIGITS)
    environment = {**os.environ, settings.DATA_DIR: str(making), "INFERBENCH_INTERFERENCE": "note", "CI": ""}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", "--inline"]
    process = subprocess.run(
        [*command, str(making / "digits.yaml")], env=environment, capture_output=True, text=True, check=False
    )
    embedded.stop(making)
    # On a busy machine the load itself may be invalid (1): what is kept was made before it.
    measured = process.returncode in (0, 1) and any(making.glob("runs/*/collect.json"))
    assert measured and any(making.glob("cache/conversions/*")), process.stdout + process.stderr


def _base(factory: pytest.TempPathFactory) -> Path:
    if folder := shared_folder():
        return folder
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
