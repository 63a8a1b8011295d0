"""Cleaning a data directory beside a PerfDB: what runs, and what is stored nowhere else, stays."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from bson import ObjectId
from filelock import FileLock
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.artifacts.cache import MANIFEST, ArtifactCache
from inferbench_tasks.backends.environments import COMPLETE, ENVIRONMENTS
from inferbench_tasks.cli.main import app
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.running.invocation import dag_run_invocation
from inferbench_tasks.upkeep.clean import STAMP, clean, due
from tests.unit.perfdb.builders import begun_before, result

pytestmark = pytest.mark.integration
OLD_S = 100 * 86_400.0
JOB = {"name": "quick", "user": "ann"}


def age(path: Path, seconds: float = OLD_S) -> None:
    """The path, and all in it, was used so long ago."""
    moment = time.time() - seconds
    for part in [*path.rglob("*"), path]:
        os.utime(part, (moment, moment), follow_symlinks=False)


def run_folder(db: PerfDB, run_id: str, *, ended: bool = True, samples: bytes = b"") -> Path:
    """An old run with its folder and record."""
    folder = settings.data_dir() / "runs" / run_id
    (folder / "server").mkdir(parents=True)
    (folder / "server" / "server.log").write_text("x" * 10_000)
    if samples:
        (folder / "samples.parquet").write_bytes(samples)
    db.start_run(run_id, run_id.rpartition(".")[0], "job-1", JOB)
    if ended:
        db.end_run(run_id, Verdict.failed("load", "late"))
    age(folder)
    return folder


def gone(db: PerfDB, *places: str, **options: bool) -> set[str]:
    """The names of what was removed."""
    return {o.path.name for o in clean(settings.data_dir(), db, places, **options) if not o.kept}


def test_old_runs_go_and_those_under_way_stay(perfdb: PerfDB) -> None:
    """Neither a run that goes on, nor another job of its submission, nor one whose device or server is held, goes."""
    over = run_folder(perfdb, "over.000")
    run_folder(perfdb, "sweep.000"), run_folder(perfdb, "sweep.001", ended=False)
    run_folder(perfdb, "leased.000")
    folder = settings.data_dir() / "runs" / "sweep.001.beside-0"
    folder.mkdir()
    age(folder)
    cluster = Cluster(perfdb)
    cluster.register(Device(device_id="d", device_type="cpu", name="a", host="b"))
    cluster.grant("d", "dag|run|000", spec={}, run_id="leased.000", now_s=0.0, est_end_s=1.0)
    listed = {o.path.name: o.kept for o in clean(settings.data_dir(), perfdb, dry_run=True)}
    assert listed == {
        "over.000": "",
        **dict.fromkeys(
            ("sweep.000", "sweep.001", "sweep.001.beside-0", "leased.000"), "its submission is under way"
        ),
    }
    assert over.is_dir() and not (settings.data_dir() / STAMP).exists(), "a dry run changes nothing"
    assert gone(perfdb) == {"over.000"} and not over.exists()
    assert not due(settings.data_dir())
    assert {p.name for p in over.parent.iterdir()} == set(listed) - {"over.000"}


def test_a_run_that_was_killed_weeks_ago_is_not_under_way(perfdb: PerfDB) -> None:
    """It counts as running for ever."""
    run_folder(perfdb, "killed.000", ended=False)
    assert gone(perfdb, "runs") == set()
    month_ago = {"$set": {"updated_at": utc_now() - timedelta(days=30)}}
    perfdb.collection("runs").update_one({"_id": "killed.000"}, month_ago)
    assert gone(perfdb, "runs") == {"killed.000"}


def test_raw_records_that_are_stored_nowhere_else_stay(perfdb: PerfDB) -> None:
    """Of a run that failed after its load, and of a run of another PerfDB; those that PerfDB has go."""
    stored = run_folder(perfdb, "stored.000", samples=b"one")
    perfdb.save_result(result("stored.000"), stored / "samples.parquet")
    other = run_folder(perfdb, "other.000", samples=b"two")
    perfdb.save_result(result("other.000"), other / "samples.parquet")
    (other / "samples.parquet").write_bytes(b"another attempt")
    age(other)
    age(stored)
    run_folder(perfdb, "failed.000", samples=b"three")
    stranger = settings.data_dir() / "runs" / "stranger.000"
    stranger.mkdir()
    age(stranger)
    kept = {o.path.name: o.kept for o in clean(settings.data_dir(), perfdb, ["runs"])}
    only_here = "samples.parquet is not in PerfDB"
    assert kept == {
        "stored.000": "", "other.000": only_here, "failed.000": only_here, "stranger.000": "PerfDB has no such run",
    }  # fmt: skip
    assert gone(perfdb, "runs", unstored=True) == {"other.000", "failed.000", "stranger.000"}


def test_what_evaluate_and_trace_sent_keeps_no_run(perfdb: PerfDB) -> None:
    """Their requests have records of their own, which no figure is of: a traced run goes like any, and so does one that
    was killed while its samples were asked."""
    for run_id, folder in (("traced.000", "trace-load"), ("killed.000", "evaluate")):
        path = run_folder(perfdb, run_id, samples=b"the load's" if folder == "trace-load" else b"")
        (path / folder).mkdir()
        (path / folder / "samples.parquet").write_bytes(b"of its own requests")
        if folder == "trace-load":
            perfdb.save_result(result(run_id), path / "samples.parquet")
        age(path)
    assert gone(perfdb, "runs") == {"traced.000", "killed.000"}


def stored(db: PerfDB, run_id: str, name: str, days: float = 2.0, attempt: int = 1) -> Attachment:
    """A file of a run, put there so long ago."""
    file = db.files.put(f"{name} of {run_id}".encode(), name, run_id=run_id, attempt=attempt)
    return file.model_copy(update={"id": begun_before(db, file.id, days)})


def test_files_that_no_result_names_go(perfdb: PerfDB) -> None:
    """Of a run that was killed before its result was written, and of a stage that was repeated; not what a result
    names, what a run that goes on has stored, what is a few hours old, or a kind's that nobody here knows."""
    for run_id in ("killed.000", "repeated.000", "runs.000", "young.000", "unknown.000"):
        kind = {"kind": "of a package that is gone"} if run_id == "unknown.000" else {}
        perfdb.start_run(run_id, run_id.rpartition(".")[0], "job-1", JOB | kind)
    for name in ("answers.parquet", "spans.parquet"):
        stored(perfdb, "killed.000", name)
    left, kept = (stored(perfdb, "repeated.000", "spans.parquet") for _ in range(2))
    perfdb.save_result(result("repeated.000", extensions={"trace": {"file": kept.model_dump()}}))
    perfdb.end_run("repeated.000", Verdict.judged([]))
    for run_id, days in (("runs.000", 2.0), ("young.000", 0.2), ("unknown.000", 2.0)):
        stored(perfdb, run_id, "spans.parquet", days)
    for run_id in ("killed.000", "young.000", "unknown.000"):
        perfdb.end_run(run_id, Verdict.failed("collect", "its process was killed"))
    perfdb.save_result(result("killed.000", verdict="failed: collect, its process was killed"))
    gone_files = {"killed.000/answers.parquet", "killed.000/spans.parquet", "repeated.000/spans.parquet"}
    listed = clean(settings.data_dir(), perfdb, dry_run=True)
    assert {str(o.path) for o in listed if o.place == "perfdb"} == gone_files
    assert perfdb.files.get(left), "a dry run changes nothing"
    clean(settings.data_dir(), perfdb)
    names = [(each["metadata"]["run_id"], str(each["_id"])) for each in perfdb.collection("fs.files").find()]
    assert sorted(run_id for run_id, _ in names) == ["repeated.000", "runs.000", "unknown.000", "young.000"]
    assert ("repeated.000", kept.id) in names and perfdb.files.get(kept)
    whole = {ObjectId(file) for _, file in names}
    assert set(perfdb.collection("fs.chunks").distinct("files_id")) == whole


def test_the_cache_goes_by_its_last_use(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found again is used again; what a waiting run was told of, or somebody makes just now, stays."""
    root = settings.data_dir() / "cache" / "models"
    cache, foreign = (
        ArtifactCache(root),
        ArtifactCache(settings.data_dir() / "cache" / "foreign" / "ab" / "models"),
    )

    def make(folder: Path) -> dict[str, str]:
        (folder / "model.bin").write_bytes(b"x" * 100_000)
        return {}

    entries = [cache.get({"n": number}, make).folder for number in range(4)]
    entries.append(foreign.get({"n": 5}, make).folder)
    for folder in entries:
        age(folder)
    environment = settings.data_dir() / "cache" / "envs" / "venv"
    environment.mkdir(parents=True)
    age(environment)
    found, told, locked = (folder.name for folder in entries[:3])
    assert cache.find({"n": 0}) is not None
    perfdb.start_run("waits.000", "waits", "job-1", JOB)
    perfdb.stage_started("waits.000", "generate")
    perfdb.stage_finished(
        "waits.000", "generate", output={"model": {"path": f"{root}/{told}/model.bin"}}, duration_s=1.0
    )
    with FileLock(root / f".{locked}.lock"):
        assert gone(perfdb, "cache") == {entries[3].name, entries[4].name}
    assert {p.name for p in root.glob(f"*/{MANIFEST}")} == {MANIFEST} and environment.is_dir()
    assert {p.name for p in root.iterdir() if p.is_dir()} == {found, told, locked}
    monkeypatch.setenv(settings.KEEP_CACHE, "0MB")
    assert gone(perfdb, "cache") == {locked}, (
        "by size the one that was used longest ago; found within the hour stays"
    )
    assert cache.find({"n": 0}) is not None and cache.find({"n": 2}) is None


def test_where_a_stranger_runs_no_cache_goes(perfdb: PerfDB) -> None:
    """A lease of a run that this PerfDB does not know: nobody knows what it uses."""
    cache = ArtifactCache(settings.data_dir() / "cache" / "models")
    age(cache.get({}, lambda folder: {}).folder)
    cluster = Cluster(perfdb)
    cluster.register(Device(device_id="d", device_type="cpu", name="a", host="b"))
    lease = cluster.grant("d", "dag|run|000", spec={}, run_id="unknown.000", now_s=0.0, est_end_s=1.0)
    assert lease is not None and gone(perfdb, "cache") == set()
    cluster.release("d", lease.token, "ended")
    assert len(gone(perfdb, "cache")) == 1


def test_submissions_and_logs(perfdb: PerfDB) -> None:
    """A submission whose run waits stays, as the scheduler wrote it down; so do the logs of its tasks."""
    shelf = settings.data_dir() / "submitted"
    shelf.mkdir()
    for name in ("submitted.waits.00000000", "submitted.runs.00000000", "submitted.over.00000000"):
        (shelf / f"{name}.json").write_text(json.dumps({}))
    (shelf / "unfinished.txt").write_text("submitted.waits.00000000")
    invocation = dag_run_invocation("submitted.runs.00000000", "manual__1")
    perfdb.start_run(f"{invocation}.000", invocation, "job-1", JOB)
    logs = settings.data_dir() / "system" / "logs"
    for dag in ("submitted.runs.00000000", "submitted.over.00000000"):
        (logs / f"dag_id={dag}" / "run_id=manual__1" / "task_id=job-000.load").mkdir(parents=True)
    (logs / "dag_processor" / "2026-01-01").mkdir(parents=True)
    (logs / "scheduler.log").write_text("silent")
    age(shelf, 200 * 86_400.0)
    age(logs)
    listed = clean(settings.data_dir(), perfdb, ["submitted", "logs"])
    kept = {str(o.path.relative_to(settings.data_dir())): o.kept for o in listed}
    assert kept == {
        "submitted/submitted.waits.00000000.json": "a run of it has not ended",
        "submitted/submitted.runs.00000000.json": "a run of it has not ended",
        "submitted/submitted.over.00000000.json": "",
        "system/logs/dag_id=submitted.runs.00000000/run_id=manual__1": "its run has not ended",
        "system/logs/dag_id=submitted.over.00000000/run_id=manual__1": "",
        "system/logs/dag_processor/2026-01-01": "",
        "system/logs/scheduler.log": "",
    }
    assert (logs / "scheduler.log").read_text() == ""


def test_the_command_lists_and_removes(perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--dry-run`` lists what would go and why the others stay; what is no place is refused."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    run_folder(perfdb, "over.000")
    run_folder(perfdb, "runs.000", ended=False)
    listed = CliRunner().invoke(app, ["clean", "runs", "--dry-run", "-o", "json"])
    rows = {row["path"]: row["stays"] for row in json.loads(listed.stdout)}
    assert rows == {"runs/over.000": None, "runs/runs.000": "its submission is under way"}
    assert "would remove 1 of 2" in listed.stderr
    assert "removed 1 of 2" in CliRunner().invoke(app, ["clean"]).stderr
    assert [p.name for p in (settings.data_dir() / "runs").iterdir()] == ["runs.000"]
    refused = CliRunner().invoke(app, ["clean", "perfdb"])
    assert refused.exit_code != 0 and "known: runs, cache, environments, submitted, logs" in str(
        refused.exception
    )


def test_environments_that_nobody_used_for_long_go(perfdb: PerfDB) -> None:
    """Whole ones only, not one that is being made; none while anything runs, for servers do not say where they do."""
    envs = settings.data_dir() / "cache" / ENVIRONMENTS
    for name in ("old", "fresh", "making", "half"):
        (envs / name / "bin").mkdir(parents=True)
        if name != "half":
            (envs / name / COMPLETE).touch()
    for name in ("old", "making", "half"):
        age(envs / name)
    age(envs / "fresh" / "bin")
    under_way = run_folder(perfdb, "beside.000", ended=False)
    assert gone(perfdb, "environments") == set()
    perfdb.end_run(under_way.name, Verdict.failed("load", "late"))
    with FileLock(f"{envs / 'making'}.lock"):
        assert gone(perfdb, "environments", dry_run=True) == {"old", "making"}
        assert gone(perfdb, "environments") == {"old"}
    assert {each.name for each in envs.iterdir() if each.is_dir()} == {"fresh", "making", "half"}
