"""The API server's start: results are read before the first page is asked for."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import warm
from tests.unit.perfdb.builders import latency

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


def started(caplog: pytest.LogCaptureFixture) -> str:
    """Start a server as Airflow's is; what the thread then said."""
    caplog.set_level(logging.INFO, logger=warm.__name__)
    server = FastAPI()
    server.add_middleware(warm.Warm)
    server.add_api_route("/", lambda: "here")
    with TestClient(server) as client:
        assert client.get("/").json() == "here"
        deadline = time.monotonic() + 120
        while not (told := [r.getMessage() for r in caplog.records if r.name == warm.__name__]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return told[0]


def test_results_are_read_at_the_start(
    perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By a server that nobody has asked for a page."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    for name in ("a", "b"):
        perfdb.save_result(latency(name, 10.0, job_id=name))
    assert started(caplog).startswith("pages are ready results=2")


def test_a_perfdb_that_is_away_does_not_keep_the_server_from_starting(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is only logged; the first page tries again."""
    monkeypatch.setenv(settings.PERFDB_URI, "mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=200")
    assert "can't be reached" in started(caplog)


def test_no_mongodb_is_started_for_it(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Airflow that has the plugin and runs no benchmark stays as it was."""
    monkeypatch.delenv(settings.PERFDB_URI, raising=False)
    warm.warm()
    assert not embedded.status(data_dir)["running"]
