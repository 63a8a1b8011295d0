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
