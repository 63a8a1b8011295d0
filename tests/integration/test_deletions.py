"""Deletions of results that are killed, wherever they are: nothing is left of them in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pymongo.collection import Collection

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import deletions
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import attachments_of, to_plain
from inferbench_tasks.upkeep.clean import clean
from tests.unit.perfdb.builders import result

pytestmark = pytest.mark.integration
#: Whatever changes documents, GridFS's among them, goes through one of these.
WRITES = ("insert_one", "insert_many", "update_one", "update_many", "delete_one", "delete_many")
RUN = "goes.000"


class Killed(BaseException):
    """As a process that ends at once: nothing catches it."""


@contextmanager
def killed_before(write: int) -> Iterator[list[int]]:
    """Of the writes that are asked of MongoDB, the one of that number (from 0) and those behind it never happen; how
    many happened.
    """
    happened: list[int] = []

    def limited(name: str) -> Callable[..., Any]:
        original = getattr(Collection, name)

        def call(self: Any, *args: Any, **options: Any) -> Any:
            if len(happened) == write:
                raise Killed
            happened.append(len(happened))
            return original(self, *args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            patch.setattr(Collection, name, limited(name))
        yield happened


def fill(db: PerfDB) -> None:
    """A run with two attempts of two files each, one of them large enough for two of GridFS's pieces, a remedy of it,
    and another run that stays."""
    for run_id in (RUN, "stays.000"):
        db.start_run(run_id, run_id.partition(".")[0], "job-1", {"name": "quick", "user": "ann"})
        for attempt in (1, 2):
            kept = {
                name: db.files.put(content, name, run_id=run_id, attempt=attempt).model_dump()
                for name, content in (("monitors.parquet", b"seen"), ("spans.parquet", b"x" * 1_200_000))
            }
            db.save_result(result(run_id, attempt=attempt, extensions=kept))
    db.collection("verified_remedies").insert_one({"run": RUN})


def empty(db: PerfDB) -> None:
    """For the next round."""
    for name in ("results", "runs", "fs.files", "fs.chunks", "verified_remedies", deletions.COLLECTION):
        db.collection(name).delete_many({})


def require_only_the_other(db: PerfDB) -> None:
    """Nothing is left of the run; the other has its results and all its files."""
    with pytest.raises(InputError, match="no result"):
        db.get_result(RUN)
    assert {entry["metadata"]["run_id"] for entry in db.collection("fs.files").find()} == {"stays.000"}
    files = [entry["_id"] for entry in db.collection("fs.files").find()]
    assert set(db.collection("fs.chunks").distinct("files_id")) == set(files) and len(files) == 4
    assert [each.attempt for each in db.find_results({"run_id": "stays.000"}, sort=[("attempt", 1)])] == [
        1,
        2,
    ]
    assert db.collection("verified_remedies").count_documents({}) == 0
    assert db.collection(deletions.COLLECTION).count_documents({}) == 0
    assert db.get_run(RUN).job_id == "job-1", "that it ran stays"


def require_readable(db: PerfDB) -> None:
    """No result that is there names a file that is not."""
    for raw in db.collection("results").find():
        for file in attachments_of(to_plain(raw)):
            assert db.files.get(file)


def by_deleting_again(db: PerfDB) -> None:
    """As the user does who saw it end."""
    db.delete_result(RUN)


def by_cleaning(db: PerfDB) -> None:
    """As a system does once a day; a dry run lists what it would end, and ends nothing."""
    past = {"$set": {"begun_at": db.now() - timedelta(hours=1)}}
    assert clean(settings.data_dir(), db) == [], "it may still be under way"
    db.collection(deletions.COLLECTION).update_many({}, past)
    before = db.collection(deletions.COLLECTION).count_documents({})
    listed = [o for o in clean(settings.data_dir(), db, dry_run=True) if o.place == "perfdb"]
    assert len(listed) == before and all("deletion" in outcome.reason for outcome in listed)
    assert db.collection(deletions.COLLECTION).count_documents({}) == before
    clean(settings.data_dir(), db)


@pytest.mark.parametrize("mended", [by_deleting_again, by_cleaning])
def test_a_deletion_that_is_killed_anywhere_leaves_nothing(
    perfdb: PerfDB, mended: Callable[[PerfDB], None]
) -> None:
    """Killed before each of its writes in turn: no result ever lacks a file, and deleting again removes what is left;
    so does the next cleaning, once all attempts are written down."""
    fill(perfdb)
    with killed_before(10_000) as happened:
        assert perfdb.delete_result(RUN) == 2
    require_only_the_other(perfdb)
    writes = len(happened)
    assert writes > 10, "two attempts, four files"
    for write in range(writes):
        empty(perfdb)
        fill(perfdb)
        with killed_before(write), pytest.raises(Killed):
            perfdb.delete_result(RUN)
        require_readable(perfdb)
        if mended is by_cleaning and write < 2:  # nothing went yet, and not all of it was written down
            continue
        mended(perfdb)
        require_only_the_other(perfdb)


def test_a_deletion_takes_no_result_that_was_written_since(perfdb: PerfDB) -> None:
    """What was written down is that document: another of the same run and attempt, restored or measured, stays."""
    fill(perfdb)
    with killed_before(5), pytest.raises(Killed):
        perfdb.delete_result(RUN)
    assert perfdb.find_results({"run_id": RUN, "attempt": 1}) == []
    perfdb.save_result(result(RUN, attempt=1))
    perfdb.collection(deletions.COLLECTION).update_many(
        {}, {"$set": {"begun_at": perfdb.now() - timedelta(hours=1)}}
    )
    clean(settings.data_dir(), perfdb)
    assert [each.attempt for each in perfdb.find_results({"run_id": RUN})] == [1]


def named_by_a_stranger(file_id: object) -> dict[str, object]:
    """What an answer of a process that is not ours can put into a result: it looks like a file of PerfDB."""
    return {"id": file_id, "name": "spans.parquet", "sha256": "0" * 64, "bytes": 1}


def pass_an_hour(db: PerfDB) -> None:
    """For all deletions that were killed."""
    past = {"$set": {"begun_at": db.now() - timedelta(hours=1)}}
    db.collection(deletions.COLLECTION).update_many({}, past)


def test_a_result_takes_no_file_of_others_with_it(perfdb: PerfDB) -> None:
    """Another run's file, a model's and an invocation's stay, though a deleted result names them beside its own."""
    others = [
        perfdb.files.put(b"a victim's", "spans.parquet", run_id="victim.000", attempt=1),
        perfdb.files.put(b"a model's", "model.onnx", model="m", digest="d"),
        perfdb.files.put(b"an artifact", "report.html", invocation_id="goes"),
    ]
    own = perfdb.files.put(b"own", "monitors.parquet", run_id=RUN, attempt=1)
    left_out = {"named": [named_by_a_stranger(file.id) for file in others]}
    perfdb.save_result(result(RUN, extensions={"left_out": left_out, "monitors": own.model_dump()}))
    assert perfdb.delete_result(RUN) == 1
    assert [perfdb.files.get(file) for file in others] == [b"a victim's", b"a model's", b"an artifact"]
    assert perfdb.sizes()["files"] == len(others)
    assert perfdb.collection(deletions.COLLECTION).count_documents({}) == 0


@pytest.mark.parametrize("file_id", ["x", 5, None, ["x"], {"x": 1}, "g" * 24])
def test_what_is_no_id_of_a_file_keeps_no_deletion_from_its_end(perfdb: PerfDB, file_id: object) -> None:
    """Neither where a result names it, nor where a version before wrote it down."""
    perfdb.save_result(result(RUN, extensions={"left_out": named_by_a_stranger(file_id)}))
    with killed_before(1), pytest.raises(Killed):
        perfdb.delete_result(RUN)
    (begun,) = perfdb.collection(deletions.COLLECTION).find()
    assert begun["files"] == []
    perfdb.collection(deletions.COLLECTION).update_one({}, {"$set": {"files": [file_id]}})
    pass_an_hour(perfdb)
    clean(settings.data_dir(), perfdb)
    assert perfdb.find_results({"run_id": RUN}) == []
    assert perfdb.collection(deletions.COLLECTION).count_documents({}) == 0


def test_a_deletion_that_can_not_be_ended_keeps_no_other_from_it(perfdb: PerfDB) -> None:
    """A cleaning tells that it stays, and ends those behind it."""
    fill(perfdb)
    damaged = {"_id": "damaged", "run_id": "damaged.000", "attempt": 1, "begun_at": perfdb.now()}
    perfdb.collection(deletions.COLLECTION).insert_one(damaged)
    with killed_before(2), pytest.raises(Killed):
        perfdb.delete_result(RUN)
    pass_an_hour(perfdb)
    told = {outcome.path.parts[0]: outcome.kept for outcome in clean(settings.data_dir(), perfdb)}
    assert "damaged" in told["damaged.000"] and told[RUN] == ""
    assert [each["_id"] for each in perfdb.collection(deletions.COLLECTION).find()] == ["damaged"]
    perfdb.collection(deletions.COLLECTION).delete_many({})
    require_only_the_other(perfdb)


def test_a_killed_deletion_takes_no_remedies_of_a_new_result(perfdb: PerfDB) -> None:
    """Those of the old result go; those that were run since stay, also where they took the place of old ones."""
    perfdb.save_result(result(RUN))
    remedies = perfdb.collection("verified_remedies")
    for key in ("goes", "again"):
        remedies.insert_one({"_id": key, "run": RUN, "created_at": perfdb.now()})
    with killed_before(3), pytest.raises(Killed):
        perfdb.delete_result(RUN)
    pass_an_hour(perfdb)
    begun_at = perfdb.now() - timedelta(hours=1)
    remedies.update_one({"_id": "goes"}, {"$set": {"created_at": begun_at - timedelta(hours=1)}})
    perfdb.save_result(result(RUN))
    remedies.replace_one({"_id": "again"}, {"run": RUN, "created_at": perfdb.now()})
    remedies.insert_one({"_id": "new", "run": RUN, "created_at": perfdb.now()})
    clean(settings.data_dir(), perfdb)
    assert sorted(each["_id"] for each in remedies.find()) == ["again", "new"]
    assert len(perfdb.find_results({"run_id": RUN})) == 1
