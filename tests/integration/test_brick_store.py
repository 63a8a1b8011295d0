"""Bricks' times in PerfDB: written once, and used again only where everything agrees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.cutting import CutModel, ToMeasure
from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS
from inferbench_tasks.brick_jobs.facts import BrickFacts
from inferbench_tasks.brick_jobs.gaps import gaps
from inferbench_tasks.brick_jobs.known_bricks import BRICKS
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.brick_jobs.stages.decompose import wanted
from inferbench_tasks.brick_jobs.store import RESULTS, PerfDBResults
from inferbench_tasks.brick_jobs.stored import by_device, predicted
from inferbench_tasks.brick_jobs.suites import SUITES, write
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.bricks.suite.manifest import Wish
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import moments
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain

pytestmark = pytest.mark.integration
SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def result(identity: str = "a", session: str = "s/1", ms: float = 1.0, **more: object) -> Result:
    fields = {
        "identity": identity, "key": "k", "operators": ("Conv",), "setting": SETTING, "session": session,
        "method": Method(), "rounds_ns": {"warm": (ms * 1e6,) * 3, "streamed": (ms * 2e6,) * 3},
        "raw_ns": {"warm": ((1, 2), (3, 4), (5, 6))}, "measured_at": AT,
    }  # fmt: skip
    return Result.model_validate(fields | more)


@pytest.fixture
def store(perfdb: PerfDB) -> PerfDBResults:
    return PerfDBResults(perfdb, SETTING)


def test_the_store_gives_back_what_was_put(store: PerfDBResults) -> None:
    """A brick with its raw times, a whole model with its cuts, and nothing that was not measured."""
    whole = result(WHOLE + "m", parts={"1": ("a", "a")}, needs={"1": ((), (0,))})
    store.put(result())
    store.put(whole)
    assert store.get("a") == result()
    assert store.get("b") is None
    assert set(store.get_many(["a", "b", WHOLE + "m"])) == {"a", WHOLE + "m"}
    assert [(one.parts, one.needs) for one in store.wholes()] == [(whole.parts, whole.needs)]


def test_the_first_base_counts(store: PerfDBResults) -> None:
    """All times of a setting are relative to one session's references: who comes second is told which."""
    assert store.base_ns() is None
    assert store.set_base_ns({"dense": 100.0}) == {"dense": 100.0}
    assert store.set_base_ns({"dense": 200.0}) == {"dense": 100.0}
    assert store.base_ns() == {"dense": 100.0}


def test_results_are_written_once(perfdb: PerfDB) -> None:
    """The same brick of the same session stays as it was; another session's is beside it, and the newest is taken."""
    store = PerfDBResults(perfdb, SETTING)
    store.put(result(ms=1))
    store.put(result(ms=9))
    assert perfdb.collection(RESULTS).count_documents({}) == 1
    assert store.get_many(["a"])["a"].rounds_ns["warm"] == (1e6,) * 3
    store.put(result(session="s/2", ms=2, measured_at=AT + timedelta(days=1)))
    assert perfdb.collection(RESULTS).count_documents({}) == 2
    assert store.get_many(["a"])["a"].rounds_ns["warm"] == (2e6,) * 3


@pytest.mark.parametrize(
    "other",
    [
        {"runtime": "onnxruntime 2"},
        {"runtime": "openvino 1"},
        {"threads": 2},
        {"processor": "q"},
        {"instruction_set": "y"},
        {"version": 99},
    ],
    ids=str,
)
def test_another_setting_has_none(perfdb: PerfDB, other: dict[str, object]) -> None:
    """Device, runtime's version, threads, method: where one differs nothing is used again, and both stay."""
    PerfDBResults(perfdb, SETTING).put(result())
    setting = SETTING.model_copy(update=other)
    there = PerfDBResults(perfdb, setting)
    assert there.get_many(["a"]) == {} and there.get("a") is None and there.wholes() == []
    there.put(result(setting=setting, ms=5))
    assert PerfDBResults(perfdb, SETTING).get_many(["a"])["a"].rounds_ns["warm"] == (1e6,) * 3


def test_disturbed_times_are_only_their_own_runs(perfdb: PerfDB) -> None:
    """A busy machine's times are kept as bounds, and used by nobody else."""
    store = PerfDBResults(perfdb, SETTING)
    store.put(result(disturbed="busy"))
    assert store.get_many(["a"]) == {} and store.get("a") is None
    assert set(store.of_runs(["s"], ["a"])) == {"a"}
    assert store.of_runs(["s2"], ["a"]) == {}
    assert store.of_runs([], ["a"]) == {}


def test_what_is_reused_is_as_much_and_as_fresh_as_asked(perfdb: PerfDB) -> None:
    """Fewer runs than asked for, or too old: measured again; ``never``: everything, ``always``: whatever their age.
    It is the newest time that counts, since it is the one that is used; disturbed ones are none."""
    now = datetime.now(UTC)
    store, past = PerfDBResults(perfdb, SETTING), now - timedelta(days=31)
    store.put(result("new", measured_at=now))
    store.put(result("old", measured_at=past))
    store.put(result("short", measured_at=now, method=Method(runs=15)))
    store.put(result("shorter", measured_at=past))
    store.put(result("shorter", measured_at=now, method=Method(runs=15), session="s2"))
    store.put(result("busy", measured_at=now, disturbed="busy"))
    other = PerfDBResults(perfdb, SETTING.model_copy(update={"threads": 2}))

    def usable(of: PerfDBResults, spec: MeasureSpec) -> set[str]:
        asked = wanted(of, spec)
        return set() if asked is None else of.usable(asked)

    assert usable(store, MeasureSpec()) == {"new"}
    assert usable(store, MeasureSpec(reuse="always")) == {"new", "old"}
    assert usable(store, MeasureSpec(reuse="never")) == set() == usable(other, MeasureSpec(runs=15))
    assert usable(store, MeasureSpec(runs=15, max_age_days=32)) == {"new", "old", "short", "shorter"}


def test_cuts_of_another_runtime_are_none(perfdb: PerfDB) -> None:
    """The same model in the same bricks, cut for two runtimes: each finds its own, and what neither says is of the
    first; predictions are of one runtime's times."""
    first = PerfDBResults(perfdb, SETTING)
    other = PerfDBResults(perfdb, SETTING.model_copy(update={"runtime": "openvino 1"}))
    facts = {"model": "m", "digest": "d", "batch_size": 1, "instruction_set": "x", "layers": 1}
    for store, task in ((first, "one"), (other, "two")):
        store.put_cut(WHOLE + "m", "1", ["a"], [()], {**facts, "task": task})
        for name, ms in (("a", 1.0), (WHOLE + "m", 1.0)):
            store.put(result(name, setting=store.setting, ms=ms * (1 if task == "one" else 7)))
        store.set_base_ns({"dense": 100.0})
    for store, task in ((first, "one"), (other, "two"), (first, "one")):
        assert [one["task"] for one in store.cuts_at("1", "runtime", "fp32", {})] == [task]
        assert [one["task"] for one in store.cuts_of([WHOLE + "m"], {})] == [task]
    assert predicted(perfdb, "m")["predicted_ms"] == pytest.approx(1)
    assert predicted(perfdb, "m", runtime="openvino")["predicted_ms"] == pytest.approx(7)
    assert [row["runtime"] for row in by_device(perfdb, "m", 1, "1", 3)] == ["onnxruntime 1"]
    with pytest.raises(InputError, match="never cut at granularity 1 in fp32 for tvm"):
        predicted(perfdb, "m", runtime="tvm")
    perfdb.collection(DECOMPOSITIONS).update_one({"task": "one"}, {"$unset": {"runtime": 1}})
    assert (
        len(first.cuts_at("1", "runtime", "fp32", {})) == 1 == len(other.cuts_at("1", "runtime", "fp32", {}))
    )
    assert [row["missing"] for row in gaps(perfdb)] == [0, 0]  # there for their age alone


def test_what_is_kept_of_a_cut_is_dated_by_perfdb_s_clock(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that lives in 2023, whatever this host's clock says: how a model is cut, what its bricks are, and the
    suite that they leave as; those of one cut at one moment, and a brick that was known stays of its first."""
    there = datetime(2023, 6, 1, tzinfo=UTC)
    monkeypatch.setattr(moments, "server_ms", lambda database: round(there.timestamp() * 1000))
    shapeless = {"inputs": (), "outputs": (), "weights": (), "flops": 1.0, "moved_bytes": 2.0}
    bricks = [BrickFacts(key=letter * 64, operators=("Conv",), **shapeless) for letter in "ab"]
    one = CutModel(
        at=0, name="m", copies=1, task=None, digest="d", batch_size=1, granularity="1", layers=1, operators=("Conv",),
        whole=WHOLE + "m", parts=("i",), needs=((),),
    )  # fmt: skip
    store = PerfDBResults(perfdb, SETTING)
    store.put_cuts([one], bricks[:1])
    for name in ("n.onnx", "n.npz"):
        (tmp_path / name).write_bytes(b"0")
    item = Item(name="i", path=tmp_path / "n.onnx", feeds=tmp_path / "n.npz")
    own = ToMeasure(item=item, key="a" * 64, operators=("Conv",), layers="l", estimate_s=1.0, shard=0)
    write(tmp_path / "suite", [own], [], Wish(runs=15, rounds=3, budget_s=1.0), ["m"], perfdb)
    there += timedelta(days=1)
    store.put_cuts([], bricks)

    def dates(collection: str) -> list[Any]:
        found = perfdb.collection(collection).find({}, {"created_at": 1}).sort("_id", 1)
        return [to_plain(document["created_at"]) for document in found]

    [cut], [suite], (first, later) = dates(DECOMPOSITIONS), dates(SUITES), dates(BRICKS)
    assert cut == first  # less what went by until the exchange could begin
    for date, day in ((first, there - timedelta(days=1)), (suite, there - timedelta(days=1)), (later, there)):
        assert timedelta(0) <= day - date.replace(tzinfo=UTC) < timedelta(minutes=1)
