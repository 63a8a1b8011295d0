"""What tests share: a data directory of their own, and one PerfDB for the whole session.

With ``INFERBENCH_PERFDB_URI`` set, the tests use that server (in databases of their own, dropped at
the end); otherwise one embedded mongod serves all workers and is stopped by the last of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from inferbench_tasks import settings
from inferbench_tasks.perfdb import clients, embedded
from inferbench_tasks.perfdb.store import PerfDB
from tests import skips
from tests.databases import Databases
from tests.file_groups import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler

# The whole suite tries the same examples each time, so that a verdict is the code's; while one works on a test it
# tries new ones (a plain ``pytest``). How long drawing them takes says how busy the machine is.
_UNTIMED = [HealthCheck.too_slow]
hypothesis_settings.register_profile("suite", derandomize=True, suppress_health_check=_UNTIMED)
hypothesis_settings.register_profile("tried", suppress_health_check=_UNTIMED)
hypothesis_settings.load_profile("suite" if os.environ.get("INFERBENCH_SUITE") else "tried")

#: Read before the tests' own environment takes its place.
EXTERNAL_URI = settings.perfdb_uri()


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """No test reads or writes the developer's own data."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="inferbench-") as folder:
        patch.setenv(settings.DATA_DIR, folder)
        patch.delenv(settings.PERFDB_URI, raising=False)
        yield


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory, set in the environment for this test and its child processes."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv(settings.DATA_DIR, str(folder))
    return folder


@pytest.fixture(scope="session")
def perfdb_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[str]:
    """The URI of the session's MongoDB; its own database is nobody's: take ``perfdb_uri``."""
    if EXTERNAL_URI:
        _note_server(pytestconfig, EXTERNAL_URI, "external")
        yield EXTERNAL_URI
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if worker else base) / "perfdb-of-all-workers"
    users = shared / "users"
    users.mkdir(parents=True, exist_ok=True)
    me = users / (worker or "alone")
    with FileLock(shared / "users.lock"):
        me.touch()
        uri = embedded.ensure(shared)
    _note_server(pytestconfig, uri, "embedded")
    yield uri
    with FileLock(shared / "users.lock"):
        me.unlink()
        if not any(users.iterdir()):
            embedded.stop(shared)


@pytest.fixture(scope="session")
def databases(perfdb_server: str) -> Iterator[Databases]:
    """What ``perfdb_uri`` takes from."""
    mine = Databases(perfdb_server)
    yield mine
    mine.drop()
    clients.forget(perfdb_server)


@pytest.fixture
def perfdb_uri(databases: Databases, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URI of an empty database; children get it by ``INFERBENCH_PERFDB_URI``.

    Where the mark ``new_database`` stands nobody had it before: for what depends on how its indexes came to be.
    """
    uri = databases.take(new=request.node.get_closest_marker("new_database") is not None)
    yield uri
    databases.give_back(uri)


@pytest.fixture
def perfdb(perfdb_uri: str, data_dir: Path) -> PerfDB:
    """A PerfDB in an empty database."""
    return PerfDB.connect(perfdb_uri, data_dir)


# -- what the PerfDB tests really ran on, at the end of the session's output --------------------------

SERVERS: dict[str, str] = {}


def _note_server(config: pytest.Config, uri: str, kind: str) -> None:
    with PerfDB.connect(uri, settings.data_dir()) as db:
        facts = {**db.server(), "server": kind}
    del facts["database"]
    SERVERS[kind] = " ".join(f"{name}={value}" for name, value in facts.items())
    if hasattr(config, "workeroutput"):
        config.workeroutput["perfdb"] = SERVERS


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker's servers, told to the process that prints."""
    SERVERS.update(getattr(node, "workeroutput", {}).get("perfdb", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per reason for which tests were skipped, and one per server."""
    for line in skips.lines(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
    for facts in SERVERS.values():
        terminalreporter.write_line(f"PerfDB tests ran on: {facts}")
    if not EXTERNAL_URI:
        terminalreporter.write_line(
            f"PerfDB tests on an external server: skipped ({settings.PERFDB_URI} is not set)"
        )
