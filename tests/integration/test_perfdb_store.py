"""PerfDB on a real MongoDB: the embedded one, or the server of INFERBENCH_PERFDB_URI."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.contracts.verdict import VALID, Reason, Verdict
from inferbench_tasks.errors import InputError, PerfDBError, StorageError
from inferbench_tasks.perfdb import frames
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored
from tests.unit.perfdb.builders import latency, result


def samples(path: Path, rows: int = 1000) -> Path:
    """A Parquet file with that many rows."""
    pq.write_table(pa.table({"done_ns": range(rows)}), path)
    return path


def test_it_is_a_real_mongod(perfdb: PerfDB) -> None:
    """The suite runs on a real server with a durable engine, and says which."""
    facts = perfdb.server()
    assert facts["process"] in ("mongod", "mongos")
    assert int(facts["version"].split(".")[0]) >= 6
    assert len(facts["git_version"]) == 40
    assert facts["process"] == "mongos" or facts["storage_engine"] == "wiredTiger"


def test_a_result_comes_back_as_it_was(perfdb: PerfDB, tmp_path: Path) -> None:
    """Every field survives, hostile keys included, and the raw samples are those that were given; a moment that was
    named, too."""
    document = result(
        created_at=utc_now() - timedelta(days=3),
        environment={"$cpu.model": {"a.b": [1, {"$x": None}]}, "": "empty", "50%": "\ud800"},
        extensions={"huge": 2**62, "where": "$where"},
    )
    assert perfdb.save_result(document, samples(tmp_path / "s.parquet"))
    found = perfdb.get_result("run-1")
    expected = document.model_dump()
    expected["environment"]["50%"] = "\\ud800"
    assert found.samples is not None
    assert found.model_dump() == {**expected, "samples": found.samples.model_dump()}
    assert perfdb.samples("run-1")["done_ns"].to_pylist() == list(range(1000))


def test_a_result_is_written_once(perfdb: PerfDB, tmp_path: Path) -> None:
    """Saving again changes nothing and leaves no second file; other samples are refused."""
    path = samples(tmp_path / "s.parquet")
    assert perfdb.save_result(result(), path)
    assert not perfdb.save_result(result(verdict="invalid: changed my mind"), path)
    assert str(perfdb.get_result("run-1").verdict) == "valid"
    assert perfdb.sizes()["files"] == 1
    with pytest.raises(PerfDBError, match="made from other samples"):
        perfdb.save_result(result(), samples(path, rows=5))
    assert perfdb.sizes()["files"] == 1


def test_each_attempt_has_its_result(perfdb: PerfDB) -> None:
    """The latest attempt is the run's result; earlier ones stay."""
    perfdb.save_result(result(attempt=2, verdict="valid"))
    perfdb.save_result(result(attempt=1, verdict="invalid: late"))
    assert perfdb.get_result("run-1").attempt == 2
    assert str(perfdb.get_result("run-1", attempt=1).verdict) == "invalid: late"
    with pytest.raises(InputError, match="no result of run 'run-1', attempt 3"):
        perfdb.get_result("run-1", attempt=3)


def _save(args: tuple[PerfDB, str]) -> bool:
    db, path = args
    return db.save_result(result(), Path(path))


def test_many_writers_of_one_result(perfdb: PerfDB, tmp_path: Path) -> None:
    """Of several processes that save the same result at once, exactly one writes; no file is left over."""
    path = str(samples(tmp_path / "s.parquet", 200_000))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        written = pool.map(_save, [(perfdb, path)] * 6, chunksize=1)
    assert sum(written) == 1
    assert perfdb.sizes()["files"] == 1
    assert perfdb.samples("run-1").num_rows == 200_000


def test_a_forked_child_has_a_client_of_its_own(perfdb: PerfDB) -> None:
    """After a fork, parent and child both go on, each through its own connection."""
    perfdb.save_result(result("before"))
    child = os.fork()
    if child == 0:
        try:
            perfdb.save_result(result("child"))
            os._exit(0)
        except BaseException:  # noqa: BLE001  # only the exit code leaves a forked child
            os._exit(1)
    perfdb.save_result(result("parent"))
    assert os.waitpid(child, 0)[1] == 0
    assert {r.run_id for r in perfdb.find_results()} == {"before", "child", "parent"}


def test_it_can_be_pickled(perfdb: PerfDB) -> None:
    """A PerfDB travels to another process as its address."""
    perfdb.save_result(result())
    assert pickle.loads(pickle.dumps(perfdb)).get_result("run-1").run_id == "run-1"


def test_the_course_of_a_run(perfdb: PerfDB) -> None:
    """Stages are recorded in order; the run is done after release, with the verdict of its result."""
    perfdb.start_run("run-1", "inv", "job", {"name": "s", "user": "u", "model": {"name": "m"}})
    for stage in ("generate", "load", "collect", "release"):
        perfdb.start_run("run-1", "inv", "job", {"name": "s", "user": "u"})
        perfdb.stage_started("run-1", stage)
        assert perfdb.get_run("run-1").status == "running"
        if stage == "collect":
            perfdb.save_result(result())
        last = stage == "release"
        perfdb.stage_finished("run-1", stage, output={"a.b": {"$c": 1}}, duration_s=1.5, last=last)
    run = perfdb.get_run("run-1")
    assert [s.stage for s in run.stages] == ["generate", "load", "collect", "release"]
    assert (run.status, run.said, run.submission.user) == ("done", "valid", "u")
    assert run.job["model"] == {"name": "m"}
    assert run.ended_at is not None
    load = run.stage("load")
    assert load is not None
    assert (load.output, load.pid, load.duration_s) == ({"a.b": {"$c": 1}}, os.getpid(), 1.5)
    assert perfdb.get_invocation("inv").run_ids == ["run-1"]


def test_the_first_failure_is_the_verdict(perfdb: PerfDB) -> None:
    """A later failure (of release) does not hide the cause; a new attempt starts the run again."""
    perfdb.start_run("r", "inv", "job", {"name": "s"})
    perfdb.stage_started("r", "load")
    perfdb.stage_failed("r", "load", error="The server died\nlog: ...")
    perfdb.stage_started("r", "release", cleans_up=True)
    perfdb.stage_failed("r", "release", error="no such process")
    run = perfdb.get_run("r")
    assert (run.status, run.said) == ("failed", "failed: load, The server died")
    perfdb.stage_started("r", "load", attempt=2)
    assert (perfdb.get_run("r").status, perfdb.get_run("r").verdict) == ("running", None)
    perfdb.stage_failed("r", "load", attempt=2, state="cancelled", error="Ctrl-C")
    run = perfdb.get_run("r")
    assert (run.status, run.said) == ("cancelled", "cancelled: load")
    assert [(s.stage, s.attempt, s.state) for s in run.stages] == [
        ("load", 1, "failed"), ("release", 1, "failed"), ("load", 2, "cancelled"),
    ]  # fmt: skip


def test_a_run_whose_process_was_killed_can_be_ended(perfdb: PerfDB) -> None:
    """end_run ends the stages that never could say so, and marks them: nobody knows when they ended. One that ends by
    itself after all is as any other."""
    perfdb.start_run("r", "inv", "job", {"name": "s"})
    perfdb.stage_started("r", "generate")
    perfdb.stage_finished("r", "generate", output={}, duration_s=1)
    perfdb.stage_started("r", "serve")
    perfdb.end_run("r", Verdict.failed("serve", "its process was killed"))
    run = perfdb.get_run("r")
    assert run.status == "failed"
    assert [(stage.state, stage.settled) for stage in run.stages] == [("done", False), ("failed", True)]
    perfdb.stage_finished("r", "serve", output={}, duration_s=1)
    assert not perfdb.get_run("r").stages[1].settled
    with pytest.raises(InputError, match="no run 'nobody'"):
        perfdb.end_run("nobody", VALID)
    with pytest.raises(PerfDBError, match="start_run comes before"):
        perfdb.stage_started("nobody", "load")
    with pytest.raises(PerfDBError, match="stage_started comes first"):
        perfdb.stage_finished("r", "load", output={}, duration_s=1)


def test_a_run_that_was_killed_behind_its_result_keeps_its_verdict(perfdb: PerfDB) -> None:
    """end_run with a verdict of figures: the run is done, and the stage that was killed behind them says so."""
    perfdb.start_run("r", "inv", "job", {"name": "s"})
    perfdb.stage_started("r", "release")
    perfdb.end_run("r", VALID)
    run = perfdb.get_run("r")
    assert (run.status, run.verdict) == ("done", VALID)
    assert [(stage.state, stage.settled, stage.error) for stage in run.stages] == [
        ("failed", True, "its process was killed")
    ]


def test_an_invocation_and_its_report(perfdb: PerfDB, tmp_path: Path) -> None:
    """A report is kept with its invocation; made again, it takes the old one's place."""
    for run_id in ("r0", "r1"):
        perfdb.start_run(run_id, "inv", "job", {"name": "s", "user": "u"}, "digest")
    perfdb.keep_submission("inv", {"name": "s", "user": "u", "sweep": {"a.b": [1]}})
    for text in (b"<html>1", b"<html>2"):
        (tmp_path / "report.html").write_bytes(text)
        perfdb.attach("inv", tmp_path / "report.html")
    perfdb.end_invocation("inv", "done")
    found = perfdb.get_invocation("inv")
    assert (found.status, found.run_ids, found.document["sweep"]) == ("done", ["r0", "r1"], {"a.b": [1]})
    assert [perfdb.files.get(a) for a in found.attachments] == [b"<html>2"]
    assert perfdb.sizes()["files"] == 1
    with pytest.raises(InputError, match="no invocation 'other'"):
        perfdb.attach("other", tmp_path / "report.html")


def test_queries_find_what_they_say(perfdb: PerfDB) -> None:
    """The filters mean on the server what they say, and a sort puts unmeasured figures last."""
    now = utc_now()
    perfdb.save_result(latency("a", 30.0))
    perfdb.save_result(latency("b", 10.0, model={"name": "bert"}, created_at=now - timedelta(days=10)))
    perfdb.save_result(latency("c", None, verdict="invalid: few samples"))

    def runs(query: str, sort: str = "", limit: int = 0) -> list[str]:
        return [row["run"] for row in frames.rows(perfdb, query, sort, limit)]

    assert runs("model=resnet*") == ["c", "a"]
    assert runs("model!=resnet50") == ["b"]
    assert runs("since=7d verdict=valid") == ["a"]
    assert runs("until=7d") == ["b"]
    assert runs("verdict=invalid") == runs("p99=none") == ["c"]
    assert runs("settings.threads>=2 batch=4 run=a,b") == ["a", "b"]
    assert runs("", "p99") == ["b", "a", "c"]
    assert runs("", "-p99", limit=2) == ["a", "b"]
    assert runs("model=none") == []


def test_verdicts_of_earlier_versions_are_read_and_found_as_new_ones(perfdb: PerfDB) -> None:
    """They stored the text alone; the same words find both, and the reasons of both are values."""
    stall = Reason(check="client_stall", figure=203.0, bound=100.0, unit="ms", text="the sender was held up")
    steal = "interference: the hypervisor took 30.0% of the machine's CPU time (at most 5%)"
    texts = {"old-valid": "valid", "old-bad": f"invalid: {steal}", "old-failed": "failed: serve, port taken"}
    for run_id, text in texts.items():
        old = to_stored(latency(run_id, 10.0, verdict=text))
        assert old.pop("judgement")["kind"] == text.partition(":")[0]
        perfdb.collection("results").insert_one(old)
        perfdb.start_run(run_id, "inv", "job", {"name": "s"})
        change = {"$set": {"verdict": text, "status": "failed" if "failed" in text else "done"}}
        perfdb.collection("runs").update_one({"_id": run_id}, change)
    perfdb.save_result(latency("new-valid", 10.0))
    perfdb.save_result(latency("new-bad", 10.0, verdict=Verdict.judged([stall])))

    def runs(query: str) -> list[str]:
        return sorted(row["run"] for row in frames.rows(perfdb, query))

    assert runs("verdict=valid") == ["new-valid", "old-valid"]
    assert runs("verdict=invalid") == ["new-bad", "old-bad"]
    assert runs("verdict=failed") == ["old-failed"]
    assert perfdb.get_result("new-bad").verdict.reasons == (stall,)
    assert perfdb.get_result("old-bad").verdict.reasons == (Reason(check="interference.steal", text=steal),)
    assert perfdb.get_result("old-bad").verdict.disturbed
    assert perfdb.get_run("old-failed").verdict == Verdict.failed("serve", "port taken")
    perfdb.stage_started("old-failed", "serve", attempt=2)
    perfdb.stage_failed("old-failed", "serve", attempt=2, error="no space left")
    assert perfdb.get_run("old-failed").verdict == Verdict.failed("serve", "no space left")


def test_runs_without_a_result_are_listed(perfdb: PerfDB) -> None:
    """A failed and a running run are shown among the results, and asked for by the same words."""
    perfdb.save_result(latency("good", 1.0))
    job = {"name": "s", "user": "u", "serve": {"backend": "triton"}, "load": {"batch_size": 8}}
    for run_id in ("bad", "busy", "good"):
        perfdb.start_run(run_id, "inv", "job", job)
    perfdb.stage_started("bad", "serve")
    perfdb.stage_failed("bad", "serve", error="port taken")
    rows = {row["run"]: row for row in frames.rows(perfdb)}
    assert rows["bad"]["verdict"] == "failed: serve, port taken"
    assert rows["busy"]["verdict"] == "running"
    assert rows["good"]["verdict"] == "valid"
    assert (rows["bad"]["backend"], rows["bad"]["batch"], rows["bad"]["p99_ms"]) == ("triton", 8, None)
    assert [row["run"] for row in frames.rows(perfdb, "verdict=failed backend=triton")] == ["bad"]
    assert [row["run"] for row in frames.rows(perfdb, "verdict=running")] == ["busy"]
    assert [row["run"] for row in frames.rows(perfdb, "p99<5")] == ["good"]


def test_failed_runs_are_in_a_sorted_list(perfdb: PerfDB) -> None:
    """Behind the results with the figure and those without it; sorted by time at their time. Asked for alone, alone."""
    now = utc_now()
    for minutes, run_id in enumerate(("third", "none", "first")):
        p99 = {"third": 3.0, "none": None, "first": 1.0}[run_id]
        perfdb.save_result(latency(run_id, p99, created_at=now - timedelta(minutes=2 * minutes)))
    perfdb.start_run("failed", "inv", "job", {"name": "s"})
    perfdb.stage_started("failed", "serve")
    perfdb.stage_failed("failed", "serve", error="port taken")
    started = {"$set": {"started_at": now - timedelta(minutes=1)}}
    perfdb.collection("runs").update_one({"_id": "failed"}, started)

    def runs(query: str, sort: str) -> list[str]:
        return [row["run"] for row in frames.rows(perfdb, query, sort, 10)]

    assert runs("", "p99") == ["first", "third", "none", "failed"]
    assert runs("", "-p99") == ["third", "first", "none", "failed"]
    assert runs("", "-created") == ["third", "failed", "none", "first"]
    assert runs("", "created") == ["first", "none", "failed", "third"]
    assert runs("verdict=failed", "-created") == runs("verdict=failed", "p99") == ["failed"]
    assert runs("p99<5", "p99") == ["first", "third"]
    rows = frames.rows(perfdb, "", "p99", unfinished=False)
    assert [row["run"] for row in rows] == ["first", "third", "none"]


def test_the_best_ten_of_an_export_are_the_same_in_every_form(perfdb: PerfDB, tmp_path: Path) -> None:
    """Of 5, none, 2, none and 9 ms the two fastest are those of 2 and 5 ms, not the two without a figure; behind all
    that have one come the others, the newest first."""
    import pandas

    for number, p99 in enumerate((5.0, None, 2.0, None, 9.0)):
        created = utc_now() + timedelta(minutes=number)
        perfdb.save_result(latency(f"r{number}", p99, created_at=created))
    for limit, best in (
        (2, ["r2", "r0"]),
        (4, ["r2", "r0", "r4", "r3"]),
        (0, ["r2", "r0", "r4", "r3", "r1"]),
    ):
        assert frames.export(perfdb, tmp_path / "x.json", sort="p99", limit=limit) == len(best)
        documents = json.loads((tmp_path / "x.json").read_text())
        assert [document["run_id"] for document in documents] == best
        frames.export(perfdb, tmp_path / "x.csv", sort="p99", limit=limit)
        assert pandas.read_csv(tmp_path / "x.csv")["run"].tolist() == best


@pytest.mark.parametrize("sort", ["p99", "-p99"])
def test_a_value_that_most_have_goes_over_pages(perfdb: PerfDB, sort: str) -> None:
    """Of 60 results 45 have the same value, beside smaller and larger ones: each row once, equal ones the newest
    first, whatever the pages' size; and a page reads no more than itself and the equal ones before it.
    """
    for number in range(60):
        value = 50.0 if number % 4 else float(number)
        perfdb.save_result(latency(f"r{number:02}", value))
    whole = [row["run"] for row in frames.rows(perfdb, "", sort, 0)]
    expected = sorted(range(60), reverse=True)
    sign = 1 if sort == "p99" else -1
    expected.sort(key=lambda number: sign * (50.0 if number % 4 else float(number)))
    assert sorted(whole) == sorted(f"r{number:02}" for number in expected)
    for size in (7, 10, 25):
        pages = [
            row["run"]
            for offset in range(0, 60, size)
            for row in frames.rows(perfdb, "", sort, size, offset=offset)
        ]
        assert pages == [f"r{number:02}" for number in expected], size


def test_a_page_of_a_sorted_list_reads_its_own_results_alone(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the figure's index, also where several have one value: of 200 results no more are read than the page's and
    those before it."""
    for number in range(200):
        perfdb.save_result(latency(f"r{number:03}", float(number // 2)))
    asked: list[dict[str, Any]] = []
    find_raw = perfdb.find_raw

    def spied(filter: Any, sort: Any, limit: int = 0, skip: int = 0, **how: Any) -> list[dict[str, Any]]:
        asked.append({"filter": filter, "sort": dict(sort), "limit": limit, "skip": skip})
        return find_raw(filter, sort, limit, skip, **how)

    monkeypatch.setattr(perfdb, "find_raw", spied)
    assert [row["p99_ms"] for row in frames.rows(perfdb, "", "p99", 5, offset=101)] == [50, 51, 51, 52, 52]
    database = perfdb.collection("results").database
    read = [
        database.command({"explain": {"find": "results", **each}, "verbosity": "executionStats"})[
            "executionStats"
        ]
        for each in asked
    ]
    # The values of the page and of the next result; the one of which half was on the page before; those between, the
    # last ones, which may go on.
    assert [of["nReturned"] for of in read] == [6, 1, 2, 2]
    assert read[0]["totalDocsExamined"] <= 107 and all(of["totalDocsExamined"] <= 2 for of in read[1:])


def test_frames_and_exports_agree(perfdb: PerfDB, tmp_path: Path) -> None:
    """The frame, CSV, Parquet and JSON hold the same results; a failed export leaves no file."""
    import pandas

    for index in range(3):
        perfdb.save_result(latency(f"r{index}", 10.0 * index or None))
    table = frames.frame(perfdb, sort="p99")
    assert table["run"].tolist() == ["r1", "r2", "r0"]
    assert table["p99_ms"].isna().tolist() == [False, False, True]
    for ending, read in (("csv", pandas.read_csv), ("parquet", pandas.read_parquet)):
        assert frames.export(perfdb, tmp_path / f"x.{ending}", sort="p99") == 3
        again = read(tmp_path / f"x.{ending}")
        assert again["p99_ms"].tolist()[:2] == [10.0, 20.0]
        assert again["run"].tolist() == table["run"].tolist()
    assert frames.export(perfdb, tmp_path / "x.json", "run=r1") == 1
    perfdb.save_result(latency("formula", 5.0, model={"name": "=1+1"}))
    frames.export(perfdb, tmp_path / "x.csv", "run=formula")
    assert pandas.read_csv(tmp_path / "x.csv")["model"].tolist() == ["'=1+1"]
    header = (tmp_path / "x.csv").read_text().splitlines()[0]
    assert frames.export(perfdb, tmp_path / "none.csv", "run=none") == 0
    assert (tmp_path / "none.csv").read_text().splitlines() == [header]
    with pytest.raises(InputError, match=r"\.csv, \.parquet, \.json"):
        frames.export(perfdb, tmp_path / "x.xlsx")
    with pytest.raises(StorageError, match="can't be written"):
        frames.export(perfdb, tmp_path / "missing" / "x.csv")
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "none.csv", "x.csv", "x.json", "x.parquet",
    ]  # fmt: skip


def test_a_run_is_named_by_a_unique_start(perfdb: PerfDB) -> None:
    """An id, its unique start, or ``latest``; several are listed, and a pattern is only text."""
    for run_id in ("alpha-1", "alpha-2", "beta"):
        perfdb.start_run(run_id, "inv", "job", {"name": "s"})
    assert perfdb.resolve_run("be") == "beta"
    assert perfdb.resolve_run("alpha-1") == "alpha-1"
    assert perfdb.resolve_run("latest") == "beta"
    with pytest.raises(InputError, match="Several runs start with 'alpha': alpha-1, alpha-2"):
        perfdb.resolve_run("alpha")
    with pytest.raises(InputError, match="no run"):
        perfdb.resolve_run(".*")


def test_deleting_takes_the_samples_too(perfdb: PerfDB, tmp_path: Path) -> None:
    """A deleted result leaves no file behind; the record of the run stays."""
    perfdb.start_run("run-1", "inv", "job", {"name": "s"})
    perfdb.save_result(result(), samples(tmp_path / "s.parquet"))
    assert perfdb.delete_result("run-1") == 1
    assert perfdb.delete_result("run-1") == 0
    assert perfdb.sizes()["files"] == 0
    assert perfdb.get_run("run-1").job_id == "job"


def test_a_document_too_large_is_a_clear_error(perfdb: PerfDB) -> None:
    """What belongs into a file is refused as a document."""
    with pytest.raises(PerfDBError, match="16 MB"):
        perfdb.save_result(result(extensions={"bulk": "x" * 17_000_000}))


@pytest.mark.parametrize(
    "sort", ["", "p99", "-p99", "created", "-created", "batch", "-model,p99", "settings.threads"]
)
def test_pages_make_up_the_whole_list(perfdb: PerfDB, sort: str) -> None:
    """Results, those without the figure, and runs without a result: every row on exactly one page, in order.

    Many are equal (p99 of 0, 5 and 10 ms, batch, model, threads), as figures often are.
    """
    start = utc_now()
    for number in range(23):
        created = start - timedelta(minutes=number * 7 % 23)
        if number % 4 == 0:
            perfdb.start_run(f"run-{number}", "i", "j", {"name": "x"})
            perfdb.collection("runs").update_one({"_id": f"run-{number}"}, {"$set": {"started_at": created}})
        else:
            p99 = float(number % 3 * 5) if number % 7 else None
            perfdb.save_result(latency(f"run-{number}", p99, created_at=created))
    rows = frames.rows(perfdb, "", sort, 1000)
    whole = [row["run"] for row in rows]
    assert sorted(whole) == sorted(f"run-{number}" for number in range(23))
    assert sorted(row["run"] for row in frames.rows(perfdb, "", sort)) == sorted(whole)
    if "created" in sort:
        times = [row["created"] for row in rows]
        assert times == sorted(times, reverse=sort.startswith("-"))
    elif sort:
        assert [row["verdict"] for row in rows[17:]] == ["running"] * 6
        newest_first = [
            [row["created"] for row in of]
            for _, of in groupby(rows, lambda row: (row["p99_ms"], row["verdict"]))
        ]
        assert "p99" not in sort or all(times == sorted(times, reverse=True) for times in newest_first)
    for size in (1, 2, 5, 16, 40):
        pages = [frames.rows(perfdb, "", sort, size, offset=offset) for offset in range(0, 40, size)]
        assert [row["run"] for page in pages for row in page] == whole
