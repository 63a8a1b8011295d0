"""Runs of one job on the devices of a kind, and on groups of them, beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance, SubmissionInfo
from inferbench_tasks.training.diagnosis.runs import slow_device
from inferbench_tasks.training.fleet.rows import alone, fleets, history, lines
from inferbench_tasks.training.result import EngineInfo, TrainingResult
from tests.unit.training.report.results import view

ENGINE = EngineInfo(kind="torchrun", strategy="ddp", processes=1, threads=1)
#: Batches of 8, as those of the made-up steps.
JOB = {"kind": "training", "name": "x", "data": {"kind": "digits"}, "train": {"batch_size": 8}}


def result(
    run: str, device: str | None, factor: int = 1, kind: str = "EPYC", wrong: str | None = None
) -> TrainingResult:
    """On that device, or those of a group (``A B``): bare steps of ``factor`` times 10 ms."""
    members = device.split() if device else []
    made = view(run, factor, ranks=max(1, len(members))).result
    devices = {"count": len(members), "strategy": "ddp"} if len(members) > 1 else {}
    digest = "0123456789abcdef"[len(members)] * 64
    return made.model_copy(
        update={
            "device": DeviceInfo(kind="cpu", name=kind, cores=2),
            "extensions": {"devices": [{"device_id": member} for member in reversed(members)]},
            "submission": made.submission.model_copy(update={"digest": digest}),
            "provenance": Provenance.model_validate({"job": {**JOB, "devices": devices}}),
            "verdict": Verdict.judged([Reason(check="x", text=wrong)] if wrong else []),
        }
    )


def test_runs_of_one_job_on_one_kind_are_set_beside_each_other() -> None:
    """Three times as slow is named; invalid runs, other kinds, and runs that leased nothing are not among them."""
    results = [result(f"r{at}", f"d{at}", 3 if at == 2 else 1) for at in range(6)]
    results += [result("w", "d9", 9, wrong="not watched"), result("i", None, 9), result("o", "d8", 9, "Xeon")]
    (one,) = fleets(results)
    assert (
        one.judged
        and [slow.device for slow in one.slow] == ["d2"]
        and set(one.step_s) == {f"d{at}" for at in range(6)}
    )
    first, *others = lines(one)
    assert (first["device"], first["is"]) == ("d2", "slower than its kind")
    assert first["by_the_others"] == pytest.approx(3) and all(row["is"] == "as its kind" for row in others)
    # The others' baseline has the sick one not in it.
    assert others[0]["by_the_others"] == pytest.approx(1)
    (few,) = fleets(results[:3])
    assert not few.judged and {row["is"] for row in lines(few)} == {"not judged"}


def test_another_cluster_s_devices_are_no_baseline() -> None:
    """Six equal devices of one cluster and six of another that take three times as long: none is named in either."""
    results = [
        result(f"{cluster}{at}", f"{cluster}{at}", factor).model_copy(update={"cluster": cluster})
        for cluster, factor in (("new", 1), ("old", 3))
        for at in range(6)
    ]
    found = fleets(results)
    assert [fleet.kind for fleet in found] == ["EPYC, 2 core(s) of new", "EPYC, 2 core(s) of old"]
    assert all(fleet.judged and not fleet.slow for fleet in found)
    gpus = [one.model_copy(update={"device": DeviceInfo(kind="gpu", name="A100")}) for one in results]
    assert [fleet.kind for fleet in fleets(gpus)] == ["A100 of new", "A100 of old"]


def test_a_row_names_its_job_and_the_run_that_it_is_of() -> None:
    """The newest of each device, the submission's name and the begin of the job's digest; two jobs are told apart, and
    so are two versions of torch."""
    first = [result(f"r{at}", f"d{at}") for at in range(2)]
    rows = lines(fleets([result("new", "d0"), *first])[0])
    assert {(row["device"], row["run"], row["runs"]) for row in rows} == {
        ("d0", "x-1.new", 2),
        ("d1", "x-1.r1", 1),
    }
    assert {(row["submission"], row["job"]) for row in rows} == {("x", "1" * 12)}
    other = [
        one.model_copy(update={"submission": SubmissionInfo(name="y", digest="f" * 64)}) for one in first
    ]
    assert {(row["submission"], row["job"]) for one in fleets([*first, *other]) for row in lines(one)} == {
        ("x", "1" * 12),
        ("y", "f" * 12),
    }
    made = [one.model_copy(update={"engine": ENGINE.model_copy(update={"version": "2.9"})}) for one in first]
    assert {row["torch"] for row in lines(fleets(made)[0])} == {"2.9"}


def test_a_devices_history_is_by_its_own_first_run() -> None:
    """The newest first; only valid runs have a step, and other devices' are not in it."""
    newest = result("c", "d1", 2)
    rows = history([newest, result("b", "d1", 9, wrong="x"), result("o", "d2"), result("a", "d1")], "d1")
    assert [row["run"] for row in rows] == ["x-1.c", "x-1.b", "x-1.a"]
    assert [row["by_the_first"] for row in rows] == [pytest.approx(2), None, 1.0]


def test_a_devices_history_begins_again_with_another_torch() -> None:
    """10 ms by the old one, 20 and 40 by the new: 40 is twice what the device did by it, not four times."""

    def by(version: str, made: TrainingResult) -> TrainingResult:
        return made.model_copy(update={"engine": ENGINE.model_copy(update={"version": version})})

    runs = [by("2", result("c", "d1", 4)), by("2", result("b", "d1", 2)), by("1", result("a", "d1"))]
    assert [row["by_the_first"] for row in history(runs, "d1")] == [pytest.approx(2), 1.0, 1.0]


def test_the_step_is_that_of_a_batch_on_all_ranks() -> None:
    """800 samples/s in batches of 8 are 10 ms; 1,600 of two ranks, too. Of a job of another version nothing is told."""
    rows = lines(fleets([result(f"r{at}", f"d{at}") for at in range(2)])[0])
    assert [row["step_ms"] for row in rows] == [pytest.approx(10.0)] * 2
    (pair,) = lines(fleets([result("p", "d0 d1")])[0])
    assert pair["step_ms"] == pytest.approx(10.0)
    (run,) = history([result("p", "d0 d1", 3)], "d1")
    assert run["step_ms"] == pytest.approx(30.0) and run["with"] == "d0"
    other = result("o", "d0").model_copy(
        update={"provenance": Provenance.model_validate({"job": {**JOB, "sharding": 3}})}
    )
    assert fleets([other, other]) == [] and history([other], "d0")[0]["step_ms"] is None


def test_a_device_with_another_torch_is_no_slower_device() -> None:
    """Five devices with the new version take 10 ms, a sixth with the old one 30: nobody is named, nor by its old runs
    once it has the new one, too; nor is one of its old runs called slow for them."""

    def by(version: str, made: TrainingResult) -> TrainingResult:
        assert made.engine is not None
        return made.model_copy(update={"engine": made.engine.model_copy(update={"version": version})})

    five = [by("2", result(f"n{at}", f"d{at}")) for at in range(5)]
    old = by("1", result("o", "d5", 3))
    (fleet,) = fleets([*five, old])
    assert fleet.judged and not fleet.slow and "d5" not in fleet.step_s
    every = [*five, by("2", result("n5", "d5")), old, by("1", result("p", "d0"))]
    (fleet,) = fleets(every)
    assert not fleet.slow and fleet.runs["d5"] == ("x-1.n5",)
    assert list(slow_device.find(old, every, 30.0)) == []
    slow = by("2", result("s", "d5", 3))
    (cause,) = slow_device.find(slow, [slow, *five], 30.0)
    assert "3.00 times the others'" in cause.sentence


def singles(slow: Mapping[str, int], count: int = 6) -> list[TrainingResult]:
    return [result(f"s{at}", f"d{at}", slow.get(f"d{at}", 1)) for at in range(count)]


def pairs(slow: Mapping[str, int], count: int = 4) -> list[TrainingResult]:
    """All pairs; those named in ``slow``, or with a device that is, take as many times as long."""
    held = [f"d{a} d{b}" for a, b in combinations(range(count), 2)]
    return [
        result(f"p{at}", names, max(slow.get(of, 1) for of in (names, *names.split())))
        for at, names in enumerate(held)
    ]


def words(results: list[TrainingResult]) -> dict[str, str]:
    """What is said of each group."""
    found = fleets(results)
    return {row["device"]: row["is"] for row in lines(found[-1], alone(found))}


def test_a_pair_at_a_third_of_the_speed_has_a_slow_link_unless_a_device_of_it_is_slow() -> None:
    """Its devices are as their kind by themselves; else the slow one is named as the reason."""
    said = words([*singles({}), *pairs({"d0 d1": 3})])
    assert said.pop("d0 + d1") == "slow together: the link between them"
    assert set(said.values()) == {"as its kind"}
    assert words([*singles({"d0": 4}), *pairs({"d0 d1": 3})])["d0 + d1"] == "slow for d0"


def test_no_link_is_blamed_where_the_devices_were_not_judged_alone() -> None:
    """Without runs on single devices, with too few of them, and with one of the two missing."""
    assert words(pairs({"d0 d1": 3}))["d0 + d1"] == "slow together; d0, d1 not judged alone"
    assert (
        words([*singles({}, 4), *pairs({"d0 d1": 3})])["d0 + d1"] == "slow together; d0, d1 not judged alone"
    )
    assert words([*singles({})[1:], *pairs({"d0 d1": 3})])["d0 + d1"] == "slow together; d0 not judged alone"
    assert words(pairs({"d2": 3}, 5))["d1 + d2"] == "slow with d2 in each of its groups; d2 not judged alone"


def test_a_device_whose_every_pair_is_slow_is_named_with_its_link() -> None:
    """Half of four devices' pairs are slow: all by one of them, which by itself is as its kind."""
    said = words([*singles({}), *pairs({"d2": 2})])
    assert {said.pop(f"{a} + {b}") for a, b in (("d0", "d2"), ("d1", "d2"), ("d2", "d3"))} == {
        "slow with every other: the link of d2"
    }
    assert set(said.values()) == {"as its kind"}
    found = fleets(pairs({"d2": 2}))
    first = lines(found[0])[0]
    assert first["by_the_others"] == pytest.approx(2) and first["chance_up_to"] == pytest.approx(1.05)


def test_a_group_without_any_other_is_shown_as_not_judged() -> None:
    """All devices of the one host together; a single device's runs are no fleet."""
    assert words([*singles({}), result("all", "d0 d1 d2 d3")]) == {"d0 + d1 + d2 + d3": "not judged"}
    assert fleets(singles({}, 1)) == []


def copied(made: TrainingResult) -> TrainingResult:
    """Its images were brought to its device's host."""
    return made.model_copy(update={"data": {**made.data, "brought": True}})


def test_a_device_that_reads_copies_is_not_beside_those_that_read_in_place() -> None:
    """Seven devices with steps of 10 ms where the images lie, one of 20 ms with copies of them: it is not named slow.
    Beside six others with copies, of 20 ms, one of 60 ms is.
    """
    in_place = [result(f"r{at}", f"d{at}") for at in range(7)]
    joined = copied(result("joined", "d9", 2))
    (one,) = fleets([joined, *in_place])
    assert set(one.step_s) == {f"d{at}" for at in range(7)} and one.judged and not one.slow
    assert not list(slow_device.find(joined, [joined, *in_place], 20.0))
    others = [copied(result(f"c{at}", f"e{at}", 2)) for at in range(6)]
    found = fleets([copied(result("sick", "d0", 6)), *others, *in_place])
    assert {fleet.kind: [slow.device for slow in fleet.slow] for fleet in found} == {
        "EPYC, 2 core(s)": [],
        "EPYC, 2 core(s), images brought": ["d0"],
    }


def test_a_devices_history_begins_again_with_images_that_were_brought() -> None:
    """10 ms in place, then 20 and 40 with copies: 40 is twice what the device did with them, not four times."""
    runs = [copied(result("c", "d1", 4)), copied(result("b", "d1", 2)), result("a", "d1")]
    assert [row["by_the_first"] for row in history(runs, "d1")] == [pytest.approx(2), 1.0, 1.0]


def test_a_cause_is_of_a_fleet_that_read_as_the_run_did() -> None:
    """A device that is slow with copies alone does not hold up its run in place."""
    plain = [result(f"r{at}", f"d{at}") for at in range(7)]
    copies = [copied(result(f"c{at}", f"d{at}", 6 if at == 0 else 2)) for at in range(7)]
    assert not list(slow_device.find(plain[0], [*copies, *plain], 10.0))
    (cause,) = slow_device.find(copies[0], [*copies, *plain], 60.0)
    assert "of EPYC, 2 core(s), images brought ran this job" in cause.evidence[0]
    assert cause.cost_s == pytest.approx(0.040)  # 60 ms less the others' 20
