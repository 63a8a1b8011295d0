"""Who had which device when, from the records of runs in a real MongoDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferbench_tasks.cluster import timeline
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.timeline import stays
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = pytest.mark.integration
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def db(perfdb_uri: str, tmp_path: Path) -> Iterator[PerfDB]:
    with PerfDB.connect(perfdb_uri, tmp_path) as opened:
        yield opened


def ran(db: PerfDB, run_id: str, *stages: tuple[str, int, tuple[str, ...], float, float | None]) -> None:
    """A run with these stages: name, attempt, devices, and seconds after noon at which it began and ended."""
    db.start_run(run_id, "inv", "job", {"name": "s", "user": "ann"})
    for name, attempt, devices, begin_s, end_s in stages:
        db.stage_started(run_id, name, attempt)
        db.stage_holds(run_id, name, attempt, devices)
        if end_s is not None:
            db.stage_finished(
                run_id, name, attempt, output={}, duration_s=end_s - begin_s, last=name == "release"
            )
        times = {"stages.$.started_at": NOON + timedelta(seconds=begin_s)}
        times["stages.$.ended_at"] = None if end_s is None else NOON + timedelta(seconds=end_s)  # type: ignore[assignment]
        of = {"_id": run_id, "stages": {"$elemMatch": {"stage": name, "attempt": attempt}}}
        db.collection("runs").update_one(of, {"$set": times})
    db.collection("runs").update_one(
        {"_id": run_id}, {"$set": {"started_at": NOON, "updated_at": NOON + timedelta(hours=1)}}
    )


def seen(db: PerfDB, since: datetime = NOON) -> list[tuple[str, str, str, float, float | None]]:
    return [
        (
            stay.device,
            stay.run,
            stay.state,
            (stay.started_at - NOON).total_seconds(),
            None if stay.ended_at is None else (stay.ended_at - NOON).total_seconds(),
        )
        for stay in stays(db, since).stays
    ]


def test_a_run_has_its_devices_from_its_first_stage_there_to_its_last(db: PerfDB) -> None:
    """A gang has all of them; what is done elsewhere is not on them; a run that no scheduler placed is on none."""
    ran(
        db,
        "gang",
        ("generate", 1, (), 0, 5),
        ("train", 1, ("a", "b"), 6, 20),
        ("release", 1, ("a", "b"), 21, 22),
    )
    ran(db, "local", ("serve", 1, (), 0, 5))
    assert seen(db) == [("a", "gang", "done", 6, 22), ("b", "gang", "done", 6, 22)]


def test_another_try_is_another_stay(db: PerfDB) -> None:
    """On the same device or another; its verdict's kind is the run's."""
    ran(
        db,
        "again",
        ("serve", 1, ("a",), 0, 5),
        ("serve", 2, ("a",), 10, 12),
        ("load", 2, ("a",), 12, 20),
        ("serve", 3, ("b",), 30, 31),
    )
    db.end_run("again", Verdict.failed("serve", "no"))
    assert seen(db) == [
        ("a", "again", "failed", 0, 5),
        ("a", "again", "failed", 10, 20),
        ("b", "again", "failed", 30, 31),
    ]


def test_who_holds_a_device_is_on_it_until_now(db: PerfDB) -> None:
    """Between two stages too; a run whose device is another's by now ended when last something was heard of it."""
    cluster = Cluster(db)
    for name in ("a", "b"):
        cluster.register(Device(device_id=name, device_type="cpu", name="a CPU", host="h"))
    assert cluster.grant("a", "job", spec={}, run_id="mine", now_s=0.0, est_end_s=1.0)
    ran(db, "mine", ("serve", 1, ("a",), 0, 5))
    ran(db, "lost", ("load", 1, ("b",), 2, None))
    assert seen(db) == [("a", "mine", "running", 0, None), ("b", "lost", "running", 2, 3600)]


def test_what_ended_before_is_left_out(db: PerfDB) -> None:
    """What reaches into the time that is looked at is in it."""
    ran(db, "early", ("serve", 1, ("a",), 0, 5))
    ran(db, "late", ("serve", 1, ("a",), 6, 600))
    assert [run for _, run, *_ in seen(db, NOON + timedelta(minutes=5))] == ["late"]


def test_what_is_not_drawn_is_said(db: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three runs with room for two the oldest is left out: its device was not free, and nobody may think so."""
    monkeypatch.setattr(timeline, "MOST_RUNS", 2)
    for number in range(2):
        ran(db, f"run-{number}", ("serve", 1, (f"d{number}",), number, 5))
    assert stays(db, NOON).unseen_before is None
    ran(db, "run-2", ("serve", 1, ("d2",), 2, 5))
    for number in range(3):
        begin = NOON + timedelta(seconds=number)
        db.collection("runs").update_one({"_id": f"run-{number}"}, {"$set": {"started_at": begin}})
    found = stays(db, NOON)
    assert found.unseen_before == NOON + timedelta(seconds=1)
    assert [stay.device for stay in found.stays] == ["d1", "d2"]
