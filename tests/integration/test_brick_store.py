"""Bricks' times in PerfDB: written once, and used again only where everything agrees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inferbench_tasks.brick_jobs.decompositions import DECOMPOSITIONS
from inferbench_tasks.brick_jobs.queries import gaps
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.brick_jobs.stages.decompose import usable
from inferbench_tasks.brick_jobs.store import RESULTS, PerfDBResults
from inferbench_tasks.brick_jobs.stored import by_device, predicted
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB

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
    assert gaps(perfdb) == []
