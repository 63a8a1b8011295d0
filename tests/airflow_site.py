"""Airflow's API and InferBench's in a process of their own, asked by a module of the tests that writes the answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.provider import metadata_db
from inferbench_tasks.provider.system.config import TUNED
from tests.warm import metadata

ROOT = Path(__file__).parents[1]


def answers_of(
    module: str, factory: pytest.TempPathFactory, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """The JSON that a module writes into the file in its arguments, with a metadata database and a PerfDB of its own.

    ``environment``: settings that are put over those of a site with Airflow's simple logins and our DAGs.
    """
    home = factory.mktemp("airflow")
    # The database is a copy: a migration of its own would take 6 s of CPU.
    metadata(home / "data", factory)
    metadata_db.copy(home / "airflow.db", home / "data")
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "INFERBENCH"))
    }
    env |= {name: TUNED[name] for name in TUNED if "AUTH_MANAGER" in name}
    env |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": TUNED["AIRFLOW__CORE__EXECUTOR"],
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "AIRFLOW__API__SECRET_KEY": "k" * 32,
        settings.DATA_DIR: str(home / "data"),
        settings.SUBMISSIONS_DIR: str(ROOT / "configs" / "submissions"),
        **(environment or {}),
    }
    command = [sys.executable, "-m", module, str(home / "answers.json")]
    try:
        process = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr[-3000:]
    finally:
        embedded.stop(home / "data")
    answers: dict[str, Any] = json.loads((home / "answers.json").read_text())
    return answers
