"""Speed-up over ranks and where the rest went, against sums worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inferbench_tasks.perfdb.documents import Provenance
from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.scaling.curve import Curve, curves
from inferbench_tasks.training.scaling.parts import Parts, parts_of
from tests.unit.training.scaling.made import STEPS, invalid, raw, result

RAW = {
    "one": raw(1, 30, 2),
    "weak": raw(2, 30, 2, exchange=4, imbalance=3, cores=1),
    "strong": raw(2, 17, 1, exchange=4, imbalance=3, cores=1),
}


def of(kind: str) -> Curve:
    """32 ms for 64 samples on one rank; two take 40 ms for 64 each, and 26 ms for 32 each."""
    results = [
        result("one", 1, 64, 2000), result("weak", 2, 64, 3200), result("strong", 2, 32, 64 / 0.026),
    ]  # fmt: skip
    (found,) = [curve for curve in curves(results, lambda made: RAW[made.run_id]) if curve.kind == kind]
    return found


def test_parts_add_up_to_the_step() -> None:
    """Blocked in backward as little as the last rank is the exchange, what others are beyond it is waiting for it."""
    parts = parts_of(RAW["weak"])
    assert parts is not None
    assert [parts.of(name) for name in Parts.NAMES] == pytest.approx([30, 2, 4, 3, 1])
    assert parts.step_ms == pytest.approx(40)
    assert parts_of([]) is None


def test_the_exchange_of_statistics_is_no_computing() -> None:
    """4 ms more a step: forward begins with 1 ms of it on one rank and 3 on the other, each 0.2 of CPU and 0.3 of waits
    for a core, so that they are blocked 0.5 and 2.5; 3 ms and 1 of computing follow. Exchange has the 0.5 of the one
    that is blocked least, imbalance the mean of 0 and 2, cores 0.3, computing the rest: 2.2. Where nobody timed it all
    4 but the waits are computing."""
    timed: list[Steps] = []
    untold: list[Steps] = []
    for steps, wall, more in zip(RAW["weak"], (1.0, 3.0), (3.0, 1.0), strict=True):
        grown = {"step_ns": 4.0, "forward_wall_ns": wall + more, "forward_own_cpu_ns": 0.2 + more}
        grown["forward_own_wait_ns"] = 0.3
        own = {name: values + 1e6 * grown.get(name, 0.0) for name, values in steps.items()}
        untold.append(own)
        shared = {"statistics_ns": wall, "statistics_cpu_ns": 0.2, "statistics_wait_ns": 0.3}
        timed.append(own | {name: np.full(STEPS, 1e6 * ms) for name, ms in shared.items()})
    parts, without = parts_of(timed), parts_of(untold)
    assert parts is not None and without is not None
    assert [parts.of(name) for name in Parts.NAMES] == pytest.approx([32.2, 2, 4.5, 4, 1.3])
    assert parts.step_ms == pytest.approx(44)
    assert [without.of(name) for name in Parts.NAMES] == pytest.approx([33.7, 2, 4, 3, 1.3])
    alone = parts_of(timed[:1])
    assert alone is not None and (alone.exchange_ms, alone.imbalance_ms) == (0, 0)


def test_waits_in_gather_are_no_computing() -> None:
    """Smooth inference has no backward, and gathers answers: what is blocked there is exchange and imbalance."""
    gathered = [
        {name.replace("backward", "gather"): values for name, values in steps.items()}
        for steps in RAW["weak"]
    ]
    parts = parts_of(gathered)
    assert parts is not None
    assert [parts.of(name) for name in Parts.NAMES] == pytest.approx([30, 2, 4, 3, 1])


def test_blocked_threads_are_no_parts_where_no_waits_for_a_core_are_told() -> None:
    """A kernel without schedstat: each wait is unknown, not 0, be it of one rank alone."""
    first, last = RAW["weak"]
    unknown = {name: np.full(STEPS, np.nan) for name in last if name.endswith("_wait_ns")}
    assert len(unknown) == 3 and parts_of([first, {**last, **unknown}]) is None


def test_weak_scaling_keeps_the_batch_of_each_rank() -> None:
    """3,200 by 2,000 samples/s are 1.6 times on two ranks; 8 ms of the step are lost, to what the parts grew by."""
    first, second = of("weak").points
    assert (first.ranks, first.speedup, first.efficiency, first.speedup_ci95) == (1, 1, 1, None)
    assert second.speedup == pytest.approx(1.6) and second.efficiency == pytest.approx(0.8)
    half = 4.302653 * math.sqrt(2) * 0.01 / 4.302653  # t(2) of both: each 1% is its own half interval
    assert second.speedup_ci95 == pytest.approx((1.6 * math.exp(-half), 1.6 * math.exp(half)), rel=1e-6)
    assert second.lost_ms == pytest.approx(
        {"computing": 0, "loading": 0, "exchange": 4, "imbalance": 3, "cores": 1}
    )
    assert second.ideal_step_ms == pytest.approx(32)


def test_strong_scaling_keeps_the_batch_of_all_ranks() -> None:
    """Half of 32 ms are the ideal step of 16; it takes 26, of which 2 are computing that did not halve."""
    _, second = of("strong").points
    assert second.ideal_step_ms == pytest.approx(16) and second.speedup == pytest.approx(32 / 26)
    assert second.efficiency == pytest.approx(16 / 26)
    assert second.lost_ms == pytest.approx(
        {"computing": 2, "loading": 0, "exchange": 4, "imbalance": 3, "cores": 1}
    )
    assert second.lost_ms and sum(second.lost_ms.values()) == pytest.approx(
        second.step_ms - second.ideal_step_ms
    )


def test_runs_of_other_work_and_runs_that_do_not_count_are_no_points() -> None:
    """Neither an invalid run nor one with other loader processes; of equal ones the first, the newest, counts."""
    one, two = result("one", 1, 64, 2000), result("weak", 2, 64, 3200)
    assert curves([one, invalid(two)], lambda _: []) == []
    fields = two.provenance.model_dump()["job"]
    other = two.model_copy(
        update={
            "provenance": type(two.provenance)(job=fields | {"loader": {**fields["loader"], "workers": 2}})
        }
    )
    assert curves([one, other], lambda _: []) == []
    newer = result("weak", 2, 64, 3000)
    (curve,) = curves([newer, one, two], lambda _: [])
    assert curve.points[1].samples_per_s == 3000 and curve.points[1].lost_ms is None


def test_two_ranks_on_one_device_are_no_two_devices() -> None:
    """On one GPU two ranks make 1.1 times its samples/s, two GPUs 1.9 times and four 3.6 times: a curve over devices,
    and one over the ranks of one device, whichever of the runs is the newest.
    """
    one = result("one", 1, 64, 1000, kind="gpu")
    shared = result("shared", 2, 64, 1100, kind="gpu")
    two, four = (result(f"of-{n}", n, 64, rate, kind="gpu", count=n) for n, rate in ((2, 1900), (4, 3600)))
    for results in ([shared, two, four, one], [four, two, shared, one]):
        of = {curve.shares_gpus: curve for curve in curves(results, lambda _: [])}
        assert [point.speedup for point in of[False].points] == pytest.approx([1, 1.9, 3.6])
        assert [point.speedup for point in of[True].points] == pytest.approx([1, 1.1])
        assert of[False].work.endswith("1 rank(s) on each device")
        assert of[True].work.endswith("all ranks on 1 device(s)")
    # Four devices with a rank each, and one with two, differ in both.
    assert curves([shared, four], lambda _: []) == []


def test_two_backends_have_curves_of_their_own() -> None:
    """gloo 1.2 times, nccl 1.8 times one rank, which exchanges nothing and is of both."""

    def by(backend: str, made: TrainingResult) -> TrainingResult:
        assert made.engine is not None
        return made.model_copy(update={"engine": made.engine.model_copy(update={"backend": backend})})

    one = result("one", 1, 64, 1000)
    results = [by("nccl", result("n", 2, 64, 1800)), by("gloo", result("g", 2, 64, 1200)), one]
    told = sorted(curve.points[1].speedup for curve in curves(results, lambda _: []))
    assert told == pytest.approx([1.2, 1.8])


def test_a_module_of_ones_own_that_has_grown_is_another_network() -> None:
    """Its name is what its user calls it; 5 parameters and 9 are no work of the same size."""
    one, two = result("one", 1, 64, 2000), result("two", 2, 64, 3200)
    assert two.model is not None
    grown = two.model_copy(update={"model": two.model.model_copy(update={"parameters": 9})})
    assert len(curves([two, one], lambda _: [])) == 1 and curves([grown, one], lambda _: []) == []


def test_ranks_that_read_copies_are_no_points_beside_ranks_that_read_in_place() -> None:
    """1,600 samples/s of two ranks with images that were brought are no 0.8 times the 2,000 of one rank in place;
    beside 1,000 of one with copies they are 1.6 times.
    """

    def copied(made: TrainingResult) -> TrainingResult:
        return made.model_copy(update={"data": {**made.data, "brought": True}})

    one, two = result("one", 1, 64, 2000), copied(result("two", 2, 64, 1600))
    assert curves([two, one], lambda _: []) == []
    (curve,) = curves([two, one, copied(result("slow", 1, 64, 1000))], lambda _: [])
    assert [point.speedup for point in curve.points] == pytest.approx([1, 1.6])


def test_runs_of_devices_by_name_and_of_the_version_before_are_of_one_curve() -> None:
    """Which devices a run may be given is no part of its work, and a field that is missing has its usual value."""
    one, two = result("one", 1, 64, 2000), result("two", 2, 64, 3200)
    fields = two.provenance.model_dump()["job"]
    del fields["train"]["trainer"], fields["data"]["read"]
    fields["on_devices"] = ["a.cpu-0", "a.cpu-1"]
    two = two.model_copy(update={"provenance": Provenance.model_validate({"job": fields})})
    (curve,) = curves([one, two], lambda made: ())
    assert [point.ranks for point in curve.points] == [1, 2]


def test_a_processor_with_fewer_cores_is_another_one() -> None:
    """Two ranks on one core are 0.9 times one rank on two: no scaling of anything. Of leased processors each has its
    own cores: one with 4 and two with 8 together are of one kind, two with 4 together are not.
    """
    one, two = result("one", 1, 64, 2000, cores=2), result("two", 2, 64, 1800, cores=1)
    assert curves([two, one], lambda _: []) == []
    assert len(curves([result("two", 2, 64, 3200, cores=2), one], lambda _: [])) == 1

    def leased(count: int, cores: float) -> TrainingResult:
        held = {"devices": [{"device_id": f"cpu-{at}", "host": "a"} for at in range(count)]}
        made = result(f"{count}", count, 64, 1000 * count, cores=cores, count=count)
        return made.model_copy(update={"extensions": held})

    assert len(curves([leased(2, 8), leased(1, 4)], lambda _: [])) == 1
    assert curves([leased(2, 4), leased(1, 4)], lambda _: []) == []


def test_another_clusters_speed_is_no_scaling() -> None:
    """Two ranks on a cluster that is three times as fast are not 3.2 times one rank here: no curve; with a run of one
    rank there they are 1.6 times that."""
    here = result("one", 1, 64, 2000)
    there = [
        result(run, ranks, 64, rate).model_copy(update={"cluster": "north"})
        for run, ranks, rate in (("far", 1, 4000), ("weak", 2, 6400))
    ]
    assert curves([here, there[1]], lambda _: []) == []
    (curve,) = curves([here, *there], lambda _: [])
    assert [point.run_id for point in curve.points] == ["far", "weak"] and "cluster north" in curve.work
    assert curve.points[1].speedup == pytest.approx(1.6)
