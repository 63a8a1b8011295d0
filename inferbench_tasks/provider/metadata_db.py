"""Airflow's SQLite metadata databases on one machine: copies of one that is migrated once per Airflow version.

A copy takes milliseconds, a migration 6 s of CPU, also of a database that needs none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from inferbench_tasks import private
from inferbench_tasks.errors import ServerError
from inferbench_tasks.provider import plugins_folder
from inferbench_tasks.provider.system.config import TUNED

#: The one setting that a migration writes into a new database.
_POOL_SLOTS = "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT"


def airflow_environment(home: Path, dags: Path) -> dict[str, str]:
    """The settings of a local run: its own SQLite, no examples, logs in its folder."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        **plugins_folder.setting(),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        _POOL_SLOTS: TUNED[_POOL_SLOTS],
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        # A key per machine would have to be kept; nothing secret is stored in this database.
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__CORE__INTERNAL_API_SECRET_KEY": "local",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def copy(database: Path, data_dir: Path) -> None:
    """A migrated, empty database at that path. ServerError where none can be made."""
    shutil.copyfile(_template(data_dir), database)
    _stamp(database).write_text(_version())


def migrate(database: Path, data_dir: Path) -> None:
    """Bring a database to the installed Airflow, whatever is in it; what is there already takes no time."""
    if not database.exists():
        copy(database, data_dir)
    elif not _stamp(database).exists() or _stamp(database).read_text() != _version():
        run_migration(os.environ | airflow_environment(database.parent, database.parent))
        _stamp(database).write_text(_version())


def run_migration(environment: dict[str, str]) -> None:
    """``airflow db migrate``; ServerError with the end of what it said."""
    process = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        umask=private.UMASK,
    )
    if process.returncode:
        raise ServerError(f"Airflow's database can't be made:\n{process.stderr.strip()[-2000:]}")


def _version() -> str:
    return f"{version('apache-airflow-core')}-{TUNED[_POOL_SLOTS]}"


def _stamp(database: Path) -> Path:
    """The file beside a database that says which Airflow it was last brought to."""
    return database.with_name(database.name + ".version")


def _template(data_dir: Path) -> Path:
    folder = data_dir / "airflow"
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / f"metadata-{_version()}.db"
    with FileLock(str(database) + ".lock"):
        if not database.exists():
            home = folder / "migrate"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            run_migration(os.environ | airflow_environment(home, home))
            os.replace(home / "airflow.db", database)
            shutil.rmtree(home, ignore_errors=True)
    return database
