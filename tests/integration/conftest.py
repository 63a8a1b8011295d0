"""What tests of the web application share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB
from tests.mounted import mounted


@pytest.fixture
def http(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The application where Airflow mounts it, for a user who may do all."""
    monkeypatch.setenv(
        "INFERBENCH_SUBMISSIONS_DIR", str(Path(__file__).parents[2] / "configs" / "submissions")
    )
    with mounted(perfdb) as client:
        yield client
