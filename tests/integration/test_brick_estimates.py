"""What estimates of bricks are learned from, on a real PerfDB."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.stored import predicted
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = pytest.mark.integration
SETTING = Setting(processor="Some CPU", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
#: FLOP of each family's bricks; which take a nanosecond for so many of them, by precision.
FLOPS = [1e6 * 1.5**at for at in range(20)]
FLOP_PER_NS = {"fp32": 1e3, "int8": 4e3}


def work(identity: str, flops: float) -> dict[str, object]:
    return {"identity": identity, "operators": ["Conv"], "flops": flops, "moved_bytes": flops / 10}


def cut(store: PerfDBResults, model: str, precision: str, works: list[dict[str, object]], view: str) -> None:
    parts = [str(one["identity"]) for one in works]
    facts = {"model": model, "batch_size": 1, "precision": precision, "view": view, "layers": len(parts)}
    facts["instruction_set"] = "x" if view == "runtime" else None
    store.put_cut(f"{WHOLE}{model}-{precision}-{view}", "1", parts, [()] * len(parts), facts, works)


@pytest.fixture
def store(perfdb: PerfDB) -> PerfDBResults:
    """Three families in both precisions, all of whose bricks were measured."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    for precision, rate in FLOP_PER_NS.items():
        for family in "abc":
            works = [work(f"{precision}-{family}{at}", flops) for at, flops in enumerate(FLOPS)]
            cut(store, family, precision, works, "runtime")
            for at, flops in enumerate(FLOPS):
                name = f"{precision}-{family}{at}"
                times = dict.fromkeys(("warm", "streamed"), (flops / rate,) * 3)
                store.put(
                    Result(
                        identity=name, key=name, operators=("Conv",), setting=SETTING, session="s",
                        method=Method(), rounds_ns=times, raw_ns={},
                    )
                )  # fmt: skip
    return store


@pytest.mark.parametrize("precision", FLOP_PER_NS)
def test_a_brick_is_estimated_by_those_of_its_precision(
    perfdb: PerfDB, store: PerfDBResults, precision: str
) -> None:
    """The same operator with the same work takes a quarter in int8: each is estimated by its own, within 5%, and held
    back families are as near; from both together it would be halfway, and off by a factor of two."""
    cut(store, "new", precision, [work(f"{precision}-new", 1e8)], "runtime")
    found = predicted(perfdb, "new", precision=precision)
    assert found["predicted_ms"] == pytest.approx(1e8 / FLOP_PER_NS[precision] / 1e6, rel=0.05)
    assert found["estimated_error_ratio"] < 0.05 and found["coverage_ratio"] == 0


def test_of_a_precision_or_view_that_nobody_measured_nothing_is_estimated(
    perfdb: PerfDB, store: PerfDBResults
) -> None:
    """Though 120 bricks are known, of that very operator."""
    cut(store, "new", "fp16", [work("fp16-new", 1e8)], "runtime")
    assert predicted(perfdb, "new", precision="fp16")["predicted_ms"] is None
    cut(store, "other", "fp32", [work("portable-new", 1e8)], "portable")
    assert predicted(perfdb, "other")["predicted_ms"] is None
