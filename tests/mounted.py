"""The web application where Airflow mounts it, over a PerfDB, for a user who may do all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from inferbench_tasks.perfdb.store import PerfDB


@contextmanager
def mounted(perfdb: PerfDB) -> Iterator[TestClient]:
    """Asks it, in this process."""
    from airflow.api_fastapi.core_api.security import get_user

    from inferbench_tasks.provider.api.access import READER, SUBMITTER, may_change, sees_logs, store
    from inferbench_tasks.provider.api.app import app

    outer = FastAPI()
    outer.add_api_route("/auth/token", lambda: {"access_token": "t"}, methods=["POST"])
    outer.mount("/inferbench", app)
    nobody: Any = lambda: None  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        for needed, instead in (
            (READER.dependency, nobody),
            (SUBMITTER.dependency, nobody),
            (get_user, lambda: SimpleNamespace(get_name=lambda: "ann@example")),
            (store, lambda: perfdb),
            (may_change, lambda: lambda dag_id: True),
            (sees_logs, lambda: True),
        ):
            patch.setitem(app.dependency_overrides, needed, instead)
        with TestClient(outer) as client:
            yield client
