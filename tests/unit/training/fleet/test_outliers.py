"""Devices that are slower than their kind, among seeded fleets of known speeds."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.documents import DeviceInfo
from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS, outliers
from inferbench_tasks.training.fleet.rows import fleets, history, lines, sick
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.report.results import view


def fleet(seed: int, devices: int = 8, sick: dict[str, float] | None = None) -> dict[str, list[float]]:
    """Steps of 100 ms that differ by 2% from device to device, and by 1% from run to run."""
    rng = np.random.default_rng(seed)
    return {
        f"d{at}": list(
            0.1 * (sick or {}).get(f"d{at}", 1.0) * np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.01, 3))
        )
        for at in range(devices)
    }


def test_equal_devices_are_named_at_no_more_than_the_stated_rate() -> None:
    """Of 3,000 fleets 1% at most: 30, and three standard deviations more."""
    named = sum(bool(outliers(fleet(seed), FALSE_ALARMS)) for seed in range(3000))
    assert named <= 30 + 3 * 30**0.5


def test_a_device_at_80_percent_is_found_among_8() -> None:
    """In 20 of 20, and nobody else is named."""
    for seed in range(20):
        found = outliers(fleet(seed, sick={"d3": 1 / 0.8}))
        assert [one.device for one in found] == ["d3"]
        assert found[0].ratio == pytest.approx(1.25, rel=0.1) and 1.05 <= found[0].bound < found[0].ratio


def test_two_sick_ones_do_not_hide_each_other_among_enough() -> None:
    """One much slower than the other, which is found once the first is taken away."""
    found = outliers(fleet(1, devices=12, sick={"d2": 2.0, "d7": 1.4}))
    assert [one.device for one in found] == ["d2", "d7"]


def test_few_devices_and_small_differences_name_nobody() -> None:
    """Without a baseline of four others nothing is said, and 3% are nobody's fault."""
    assert outliers({f"d{at}": [9.0 if at == 0 else 1.0] for at in range(4)}) == []
    assert outliers({f"d{at}": [1.03 if at == 0 else 1 + at * 1e-6] for at in range(8)}) == []
    assert outliers({}) == []


def result(
    run: str, device: str | None, factor: int = 1, kind: str = "EPYC", wrong: str | None = None
) -> TrainingResult:
    made = view(run, factor).result
    held = [{"device_id": device}] if device else []
    return made.model_copy(
        update={
            "device": DeviceInfo(kind="cpu", name=kind, cores=2),
            "extensions": {"devices": held},
            "submission": made.submission.model_copy(update={"digest": "f" * 64}),
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


def test_groups_are_judged_beside_groups_and_a_slow_device_explains_its_own() -> None:
    """A pair at a third of the speed has a slow link, unless one of its devices is slow by itself."""
    held = [f"d{a} d{b}" for a in range(4) for b in range(a + 1, 4)]

    def runs(slow: dict[str, int]) -> list[TrainingResult]:
        made = [result(f"s{at}", f"d{at}", slow.get(f"d{at}", 1)) for at in range(6)]
        for number, names in enumerate(held):
            of = result(f"p{number}", None, slow.get(names, 1))
            devices = [{"device_id": name} for name in reversed(names.split())]
            digest = of.submission.model_copy(update={"digest": "e" * 64})
            made.append(of.model_copy(update={"extensions": {"devices": devices}, "submission": digest}))
        return made

    alone, pairs = fleets(runs({"d0 d1": 3}))
    assert (alone.size, pairs.size) == (1, 2) and not alone.slow
    assert [slow.device for slow in pairs.slow] == ["d0 + d1"]
    assert lines(pairs, sick([alone, pairs]))[0]["is"] == "slow together: the link between them"
    alone, pairs = fleets(runs({"d0": 4, "d0 d1": 3}))
    assert sick([alone, pairs]) == {"d0"}
    assert lines(pairs, sick([alone, pairs]))[0]["is"] == "slow for d0"


def test_a_devices_history_is_by_its_own_first_run() -> None:
    """The newest first; only valid runs have a step, and other devices' are not in it."""
    newest = result("c", "d1", 2)
    rows = history([newest, result("b", "d1", 9, wrong="x"), result("o", "d2"), result("a", "d1")], "d1")
    assert [row["run"] for row in rows] == ["x-1.c", "x-1.b", "x-1.a"]
    assert [row["by_the_first"] for row in rows] == [pytest.approx(2), None, 1.0]
