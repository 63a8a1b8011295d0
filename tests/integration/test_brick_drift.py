"""How fast devices were over their sessions of bricks, from a real PerfDB, over REST and on the Regression page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks.brick_jobs.store import REFERENCES, PerfDBResults
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.measure.session import Session
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.machines import drifts

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
SETTING = Setting(processor="Some CPU", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def slower(perfdb: PerfDB) -> PerfDBResults:
    """Eight nights at about the first's level, then eight in which the dense reference takes 1.44 times as long."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 100.0, "plain": 10.0})
    for night in range(16):
        noise = 1 + 0.002 * (night % 3)
        dense = 100.0 * noise * (1.44 if night >= 8 else 1)
        store.put_references(
            f"night-{night:02}", {"dense": dense, "plain": 10.0 * noise}, AT + timedelta(days=night)
        )
    return store


def test_a_machine_that_became_slower_is_found(perfdb: PerfDB, slower: PerfDBResults) -> None:
    """The level is the geometric mean of both references: 1.2 from the ninth night on, and no other change."""
    [row] = drifts(perfdb)
    assert row["sessions"] == 16 and row["level_ratio"] == pytest.approx(1.2)
    assert row["references"] == pytest.approx({"dense": 1.44, "plain": 1.0})
    [change] = row["changes"]
    assert change["session"] == "night-08" and change["change_percent"] == pytest.approx(20, abs=0.3)
    assert [point["session"] for point in row["points"]] == [f"night-{night:02}" for night in range(16)]
    assert drifts(perfdb, "other") == []


def test_a_steady_machine_has_no_change(perfdb: PerfDB) -> None:
    """Sixteen sessions within 1% of each other; a session that is told twice is one."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 100.0})
    for night in range(16):
        for _ in range(2):
            store.put_references(
                f"n{night}", {"dense": 100.0 + (night * 7) % 5 / 5}, AT + timedelta(days=night)
            )
    [row] = drifts(perfdb)
    assert row["sessions"] == 16 and not row["changes"]


def test_a_session_that_counts_keeps_its_references(perfdb: PerfDB) -> None:
    """As they were; its times are told at the setting's base, which the first session sets."""
    store = PerfDBResults(perfdb, SETTING)
    for name, ns in (("one", 100.0), ("two", 150.0)):
        session = Session(True, 3, 3, [1.0], {"dense": ns}, {}, {"dense": ns})
        assert store.at_base(session, name).base_ns == {"dense": 100.0}
    stored = {one["session"]: one["references_ns"] for one in perfdb.collection(REFERENCES).find()}
    assert stored == {"one": {"dense": 100.0}, "two": {"dense": 150.0}}


def test_rest_and_the_page_show_it(http: TestClient, slower: PerfDBResults) -> None:
    """With its change; a device of another name is none, and the page without sessions says nothing of machines."""
    [row] = http.get("/inferbench/api/bricks/drift").json()["items"]
    assert row["level_ratio"] == pytest.approx(1.2) and len(row["changes"]) == 1
    assert http.get("/inferbench/api/bricks/drift", params={"device": "other"}).json()["items"] == []
    text = http.get("/inferbench/regression").text
    assert "Reference bricks" in text and "Some CPU" in text and "+20.0" in text and "night-08" in text


def test_the_page_without_sessions_of_bricks(http: TestClient, perfdb: PerfDB) -> None:
    """Says nothing of machines."""
    assert "Reference bricks" not in http.get("/inferbench/regression").text
