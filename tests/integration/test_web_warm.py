"""The API server's start: results are read before the first page is asked for."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api import warm
from tests.unit.perfdb.builders import latency

pytestmark = [pytest.mark.integration, pytest.mark.airflow]


#: A server as Airflow's is, asked for four pages while its thread warms up; every import of PyMongo takes its time.
ASKED_AT_ONCE = """
import sys, threading, time
from importlib.abc import MetaPathFinder
import airflow
from fastapi import FastAPI
from fastapi.testclient import TestClient
from inferbench_tasks.provider.api.warm import Warm
from inferbench_tasks.provider.api.application import pages

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("pymongo"):
            time.sleep(0.02)

assert "pymongo" not in sys.modules
sys.meta_path.insert(0, Slow())
server = FastAPI()
server.add_middleware(Warm)
server.mount("/inferbench", pages)
answers = {}
def ask(name):
    answers[name] = client.get(f"/inferbench/{name}").status_code
with TestClient(server) as client:
    asking = [threading.Thread(target=ask, args=(name,)) for name in ("runs", "compare", "cluster", "leaderboard")]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
print(sorted(answers.values()))
"""


@contextmanager
def listening(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """pytest's handler at the logger itself: the first import of Airflow takes the root logger's handlers away."""
    caplog.set_level(logging.INFO, logger=warm.__name__)
    warm.log.addHandler(caplog.handler)
    try:
        yield
    finally:
        warm.log.removeHandler(caplog.handler)


def started(caplog: pytest.LogCaptureFixture) -> str:
    """Start a server as Airflow's is; what the thread then said."""
    server = FastAPI()
    server.add_middleware(warm.Warm)
    server.add_api_route("/", lambda: "here")
    with listening(caplog), TestClient(server) as client:
        assert client.get("/").json() == "here"
        deadline = time.monotonic() + 120
        while not (messages := [r.getMessage() for r in caplog.records if r.name == warm.__name__]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return messages[0]


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


def test_a_manifest_that_is_wrong_keeps_nothing_else_from_being_read(
    perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of the user's: PerfDB is not said to be away, and its pages are ready."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)

    def wrong(*order: object) -> Any:
        raise InputError("model:mine@1.0.0 has two contents")

    monkeypatch.setattr(Catalogue, "here", wrong)
    perfdb.save_result(latency("a", 10.0, job_id="a"))
    with listening(caplog):
        warm.warm()
    said = [record.getMessage() for record in caplog.records if record.name == warm.__name__]
    first, last = dict.fromkeys(said)  # two handlers may have heard each
    assert first == "no manifests were read ahead: model:mine@1.0.0 has two contents"
    assert last.startswith("pages are ready results=1")


def test_no_mongodb_is_started_for_it(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Airflow that has the plugin and runs no benchmark stays as it was."""
    monkeypatch.delenv(settings.PERFDB_URI, raising=False)
    warm.warm()
    assert not embedded.status(data_dir)["running"]


def test_pages_that_are_asked_for_at_once_all_answer(data_dir: Path, tmp_path: Path) -> None:
    """Four first requests and the warming thread: all want the application, one imports it, no page is an error."""
    child = subprocess.run(
        [sys.executable, "-c", ASKED_AT_ONCE], env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    # 401: they got as far as the question who is asking.
    assert child.stdout.splitlines()[-1:] == ["[401, 401, 401, 401]"], child.stdout + child.stderr
