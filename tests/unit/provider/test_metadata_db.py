"""Airflow's metadata databases: copies of one that is migrated once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from inferbench_tasks.provider import metadata_db
from inferbench_tasks.provider.system.config import TUNED
from tests.warm import metadata

pytestmark = pytest.mark.airflow


def test_it_is_migrated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A new database is a copy with the tables and the pool of our settings; one of this version is left as it is; one
    that another version left is migrated."""
    database = tmp_path / "home" / "airflow.db"
    database.parent.mkdir()
    metadata(tmp_path, tmp_path_factory)  # the suite's one migration, by the same function
    metadata_db.migrate(database, tmp_path)
    with sqlite3.connect(database) as connection:
        ((slots,),) = connection.execute("select slots from slot_pool where pool = 'default_pool'")
    assert str(slots) == TUNED["AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT"]
    migrations: list[str] = []

    def note(environment: dict[str, str]) -> None:
        migrations.append(environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])

    monkeypatch.setattr(metadata_db, "run_migration", note)
    metadata_db.migrate(database, tmp_path)
    metadata_db.copy(tmp_path / "second.db", tmp_path)
    assert migrations == []
    database.with_name("airflow.db.version").write_text("3.0.0-128")
    metadata_db.migrate(database, tmp_path)
    metadata_db.migrate(database, tmp_path)
    assert migrations == [f"sqlite:///{database}"]
