"""How a run on another host is seen while it goes: told to PerfDB by its worker, read by the web server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.perfdb import progress
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.ui.following import Watch
from inferbench_tasks.provider.ui.live import live_of
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.running.telling import Telling

pytestmark = pytest.mark.integration
RUN = "x-1.000"
SAID = "measuring: {} requests/s, 1 in flight, 0 errors, p50 2.00 ms, p99 4.00 ms in the last 5 s"


def running(db: PerfDB) -> RunDocument:
    """A run whose load goes on."""
    db.start_run(RUN, "x-1", "j", {})
    db.stage_started(RUN, "load")
    return next(iter(db.find_runs({"_id": RUN})))


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path, db: PerfDB) -> Telling:
    """Told by a worker that joined: its invocation's folder is nobody else's."""
    monkeypatch.setenv(settings.PROGRESS, settings.IN_PERFDB)
    folder.mkdir(parents=True, exist_ok=True)
    return Telling(Invocation("x-1", folder), db, RUN)


def ago(seconds: float, **event: Any) -> dict[str, Any]:
    return {"t": time.time() - seconds, "stage": "load", "job": 0, **event}


def test_a_load_elsewhere_is_seen_on_the_pages(
    perfdb: PerfDB, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rate and p99 on the home and on the run's page, which follows it; what comes within a second is told once."""
    record = running(perfdb)
    watch = Watch(perfdb, record, logs=False)
    assert live_of(perfdb, record) is None
    tell = elsewhere(monkeypatch, tmp_path / "worker", perfdb)
    tell(event="start", stage="load", job=0)
    for rate in range(100, 150):
        tell(event="progress", stage="load", job=0, done=1.0, total=10.0, text=SAID.format(rate))
    tell.close()
    live = live_of(perfdb, record)
    assert live is not None and live.text == SAID.format(149) and live.percent == 10.0
    assert [curve.newest for curve in live.curves] == [149.0, 2.0, 4.0]
    assert len(progress.told(perfdb, RUN)) == 2
    watch.ask()
    ((name, html),) = watch.news()
    assert name == "now" and "149 requests/s" in html and watch.away
    again = elsewhere(monkeypatch, tmp_path / "worker", perfdb)
    again(event="end", stage="load", job=0, state="done")
    again.close()
    watch.look_away()
    list(watch.news())
    assert watch.must_ask and live_of(perfdb, record) is None


def test_nothing_is_told_to_perfdb_where_the_folder_is_shared(perfdb: PerfDB, tmp_path: Path) -> None:
    """By default the invocation's folder has it all."""
    running(perfdb)
    tell = Telling(Invocation("x-1", tmp_path), perfdb, RUN)
    tell(event="start", stage="load", job=0)
    tell.close()
    assert progress.told(perfdb, RUN) == [] and "start" in (tmp_path / "events.jsonl").read_text()


def test_a_worker_s_clock_that_is_off_changes_no_time_left(perfdb: PerfDB) -> None:
    """Ten minutes ahead: its moments are read by the clock of PerfDB's server."""
    running(perfdb)
    ahead = {**ago(0, event="progress", done=2.0, total=10.0, text=SAID.format(100))}
    ahead["t"] += 600
    perfdb.collection(progress.COLLECTION).insert_one({"_id": RUN, "events": []})
    perfdb.collection(progress.COLLECTION).update_one(
        {"_id": RUN}, {"$set": {"events": [ahead], "sent": ahead["t"]}, "$currentDate": {"at": True}}
    )
    (event,) = progress.told(perfdb, RUN)
    assert abs(event["t"] - time.time()) < 60


def test_what_is_no_event_is_left_out(perfdb: PerfDB) -> None:
    """A joined worker may write anything: no list, no mapping, no moment, no number."""
    for events in ("text", 5, [1, "a", None, {"t": "soon"}, {"t": float("nan")}, {}, {"t": True}]):
        document = {"_id": RUN, "events": events, "sent": "then", "at": "now"}
        perfdb.collection(progress.COLLECTION).replace_one({"_id": RUN}, document, upsert=True)
        assert progress.told(perfdb, RUN) == []


def test_only_the_newest_are_kept_and_not_for_ever(perfdb: PerfDB) -> None:
    """200 of them; the server forgets them an hour after the last."""
    for number in range(0, 300, 50):
        events = [ago(300 - number - each, event="progress", done=float(number + each)) for each in range(50)]
        assert progress.tell(perfdb, RUN, events)
    assert [event["done"] for event in progress.told(perfdb, RUN)] == [
        float(each) for each in range(100, 300)
    ]
    index = perfdb.collection(progress.COLLECTION).index_information()["silent"]
    assert index["expireAfterSeconds"] == 3600 and index["key"] == [("at", 1)]


def test_a_perfdb_that_is_away_holds_no_stage_up(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telling returns at once, its end waits some seconds at most; nothing is raised."""
    monkeypatch.setattr("inferbench_tasks.perfdb.progress.tell", lambda *_: time.sleep(60))
    tell = elsewhere(monkeypatch, tmp_path / "worker", perfdb)
    began = time.monotonic()
    tell(event="start", stage="load", job=0)
    assert time.monotonic() - began < 1
    tell.close()
    assert time.monotonic() - began < 30
