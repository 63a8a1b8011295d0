"""Two trainings beside each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import DeviceInfo, Provenance
from inferbench_tasks.training.comparison import Compared, _beside, compare
from inferbench_tasks.training.expected_ratio import Should
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.statistics import of_steps
from tests.unit.training.report.results import view


def result(steps_ms: Any, device: str = "cpu", **train: Any) -> TrainingResult:
    """A run whose only phase is forward, of these steps in ten rounds."""
    made = view("a").result
    assert made.summary is not None
    block = of_steps(np.array_split(np.asarray(steps_ms, dtype=np.float64), 10))
    timing = {
        **made.summary.synchronised,
        "rounds": 10,
        "step_ms": block,
        "phases": {"forward": {"wall_ms": block, "cpu_ms": 1.0, "wait_ms": 0.0}},
    }
    bare = {**made.summary.bare, "samples_per_s_ci95": [790.0, 810.0]}
    return made.model_copy(
        update={
            "summary": made.summary.model_copy(update={"synchronised": timing, "bare": bare}),
            "device": DeviceInfo(kind="cpu", name=device, cores=2),
            "provenance": Provenance(**{"job": {"train": {"batch_size": 8, **train}}}),
        }
    )


def named(figures: tuple[Compared, ...], name: str) -> Compared:
    return next(figure for figure in figures if figure.name == name)


def test_a_ratio_has_the_interval_of_both_means() -> None:
    """Rounds of 9 and 11 ms in turns: an error of 1/3 ms on 10; three figures at t(9) of 1 - 0.05 / 3."""
    steps = [value for block in range(10) for value in [9.0 if block % 2 else 11.0] * 10]
    comparison = compare(result(steps), result([2 * step for step in steps]))
    forward = named(comparison.figures, "forward, ms")
    assert forward.ratio == pytest.approx(2)
    half = 2.933324 * math.sqrt(2) / 30  # t(9), 99.167th percentile; each relative error is 1 / 30
    assert forward.interval == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)), rel=1e-4)
    assert forward.verdict == "worse"
    assert (
        named(compare(result([2 * step for step in steps]), result(steps)).figures, "step, ms").verdict
        == "better"
    )


def test_the_same_configuration_is_told_apart_in_one_of_twenty_at_most() -> None:
    """400 pairs of 200 independent steps: any figure of a pair counts."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(400):
        one, other = rng.gamma(20, 0.5, 200), rng.gamma(20, 0.5, 200)
        wrong += any(f.verdict in ("better", "worse") for f in compare(result(one), result(other)).figures)
    assert wrong <= 0.05 * 400 + 2 * math.sqrt(400 * 0.05 * 0.95)


def test_intervals_of_an_unknown_number_of_rounds_decide_nothing() -> None:
    """A result of before they were made of rounds has intervals by blocks of its steps."""
    one, other = result([10.0] * 100), result([30.0] * 100)
    assert one.summary is not None
    del one.summary.synchronised["rounds"]
    assert named(compare(one, other).figures, "step, ms").verdict == "no interval"


def test_without_an_interval_nothing_is_better() -> None:
    """Whatever the ratio."""
    one, other = result([10.0] * 100), result([30.0] * 100)
    assert other.summary is not None
    other.summary.synchronised["step_ms"]["ci95"] = None
    assert named(compare(one, other).figures, "step, ms").verdict == "no interval"


def test_runs_of_other_work_and_runs_that_do_not_count_are_refused() -> None:
    """Each with what differs."""
    steps = [10.0] * 100
    with pytest.raises(InputError, match="the batch of a process is 8 and 16"):
        compare(result(steps), result(steps, batch_size=16))
    bad = result(steps).model_copy(
        update={"verdict": Verdict.judged([Reason(check="steps", text="too few")])}
    )
    with pytest.raises(InputError, match="only valid runs are compared"):
        compare(result(steps), bad)


def test_devices_are_set_beside_the_speed_that_they_should_have() -> None:
    """A V100 should take 1 by 0.943 of an A40's time; 1.05 times is as it should be, twice is not."""
    rng = np.random.default_rng(1)
    steps = rng.normal(10, 0.1, 200)
    notes = compare(result(steps, "A40"), result(steps * 1.05, "V100")).notes
    assert "device: A40 and V100" in notes
    assert any(note.startswith("forward, ms: 1.05 x, expected 1.06 x: as it should be") for note in notes)
    notes = compare(result(steps, "A40"), result(steps * 2, "V100")).notes
    assert any("1.9 times what it should be" in note for note in notes)


def test_a_device_whose_interval_leaves_it_open_is_neither_slow_nor_as_it_should_be() -> None:
    """1.2 times the expectation as a point; rounds of another V100 differ so much that nobody can tell."""
    rng = np.random.default_rng(1)
    steps = rng.normal(10, 0.1, 200)
    uneven = steps * 1.2 / 0.943 * np.repeat(rng.normal(1, 0.3, 10), 20)
    notes = compare(result(steps, "A40"), result(uneven, "V100")).notes
    assert any("not told apart from what it should be" in note for note in notes), notes


def test_a_ratio_within_what_it_should_be_is_set_beside_both_ends() -> None:
    """1.5 times (95%: 0.5 to 4) where 1 to 2 times should be: half of the least to twice the most. Above, at 3 times
    (2.4 to 4), both are beside the 2; below, at 0.5 (0.4 to 0.8), beside the 1."""
    should = Should(1.0, 2.0, ("forward",), ())

    def said(ratio: float, low: float, high: float) -> str:
        return _beside(Compared("forward, ms", 1.0, ratio, ratio, (low, high), "worse"), should)

    assert said(1.5, 0.5, 4.0) == "not told apart from what it should be (95%: 0.5 to 2 times)"
    assert said(3.0, 2.4, 4.0) == "1.5 times what it should be (95%: 1.2 to 2)"
    assert said(3.0, 2.2, 4.0) == "not told apart from what it should be (95%: 1.1 to 2 times)"
    assert said(0.5, 0.4, 0.8) == "0.5 times what it should be (95%: 0.4 to 0.8)"
    assert said(1.5, 0.9, 2.2) == "as it should be"
    # An end within what it should be is 1.
    assert said(1.95, 1.7, 2.5) == "not told apart from what it should be (95%: 1 to 1.2 times)"
    assert said(1.05, 0.7, 1.3) == "not told apart from what it should be (95%: 0.7 to 1 times)"


def test_where_the_data_lay_is_named_beside_the_figures() -> None:
    """On the device and in cold files: the steps differ by that, not by the code."""
    steps = np.random.default_rng(1).normal(10, 0.1, 200)
    one, other = result(steps), result(steps)
    one.data["where"], other.data["read"] = "device", "cold"
    assert {"data: device and disk", "reads: warm and cold"} <= set(compare(one, other).notes)


def test_modules_of_one_name_and_another_size_are_two_networks() -> None:
    """What a user calls ``my-net`` had 5 parameters and has 9 now: a step of it is other work."""
    one, other = result([10.0] * 100), result([10.0] * 100)
    assert other.model is not None
    other = other.model_copy(update={"model": other.model.model_copy(update={"parameters": 9})})
    with pytest.raises(InputError, match="the number of its parameters is 5 and 9"):
        compare(one, other)


def test_what_changes_loading_and_the_exchange_is_named_beside_the_figures() -> None:
    """Other images, fewer of them, pinned batches, processes that stay, and another backend; nothing of the same."""
    steps = np.random.default_rng(1).normal(10, 0.1, 200)
    one, other = result(steps), result(steps)
    assert other.engine is not None
    other = other.model_copy(update={"engine": other.engine.model_copy(update={"backend": "gloo"})})
    other.data.update(path="small", samples=500)
    one.loader.update(workers=2)
    other.loader.update(workers=2, pin_memory=True, persistent=True, context="spawn")
    assert set(compare(one, other).notes) == {
        "data's folder: None and small", "samples: None and 500", "pinned batches: False and True",
        "loader processes stay: False and True", "loader processes started by: fork and spawn",
        "exchange: None and gloo",
    }  # fmt: skip
    assert compare(one, one).notes == ()


def test_loader_processes_are_those_that_there_were() -> None:
    """Of a batch that lies on the device there were none, whatever was asked for, so that nothing is said of how they
    were started.
    """
    one, other = result([10.0] * 100), result([10.0] * 100)
    one.data["where"], other.data["where"] = "device", "memory"
    one.loader.update(workers=2, prefetch=4, persistent=True, context="spawn")
    other.loader.update(workers=2)
    assert compare(one, other).notes == ("data: device and memory", "loader processes: 0 and 2")
    other.data["where"] = "device"
    assert compare(one, other).notes == ()
