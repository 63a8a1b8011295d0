"""Two real schedulers on one real PostgreSQL: Airflow allows no second one on SQLite, which locks no rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks.provider.system.config import METADATA_DB
from tests import postgres
from tests.local_system import Driver, local_system, write_job
from tests.warm import warm

pytestmark = [
    # Two dispatchers on one PerfDB, one of which goes: tests/integration/test_cluster_leases.py and its neighbours.
    pytest.mark.long,
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(postgres.why_not() is not None, reason=str(postgres.why_not())),
]
LENGTHS = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 1.5}


def _write(folder: Path) -> None:
    for name, seconds in LENGTHS.items():
        write_job(folder, f"job-{name}", seconds)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    base = tmp_path_factory.mktemp("two")
    warm(base / "data", tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch, postgres.postgres() as url:
        patch.setenv(METADATA_DB, url)
        with local_system(base, _write) as running:
            yield running


def test_two_schedulers(driver: Driver) -> None:
    """Two real schedulers at once: each job is measured once, no device is leased twice; one of them killed at work,
    the other goes on."""
    before = {name: len(driver.results(f"job-{name}")) for name in LENGTHS}
    with driver.second_scheduler():
        runs = {name: driver.trigger(f"job-{name}") for name in LENGTHS}
        driver.until(
            lambda: any(driver.tasks(run)["serve"]["state"] == "success" for run in runs.values()),
            "no job has started",
            300,
        )
        driver.kill("scheduler")
        driver.succeeded(*runs.values(), timeout_s=600)
    for name in LENGTHS:
        assert len(driver.results(f"job-{name}")) == before[name] + 1, name
    driver.all_is_well()
