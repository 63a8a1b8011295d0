"""What makes the difference, by hand: it adds up, and its interval is that of Student and Welch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.analysis.stack.base import Subject
from inferbench_tasks.analysis.stack.difference import BETWEEN, difference, ratio_of
from inferbench_tasks.analysis.stack.document import labelled, stacks
from inferbench_tasks.analysis.stack.profile import Layer, Profile
from inferbench_tasks.analysis.stack.words import sentences, unlike
from tests.unit.analysis.stack.spans import layer, profile


def test_rows_add_up_to_the_difference() -> None:
    """A layer 70 us slower, one that is gone, one that is new, and 5 us more between: 90 us in all."""
    left = profile([[layer("c", "Conv", 100, (1, 8)), layer("p", "MaxPool", 20, (1, 4))]])
    right = profile(
        [[layer("c", "Conv", 170, (1, 8)), layer("s", "Softmax", 35, (1, 4))]], label="b", between_us=[15]
    )
    found = difference(left, right)
    assert found.difference_ms == pytest.approx(0.090)
    assert sum(row.difference_ms for row in found.rows) == pytest.approx(found.difference_ms)
    assert [row.what for row in found.rows] == ["same", "only right", "only left", BETWEEN]
    assert [row.difference_ms for row in found.rows] == pytest.approx([0.070, 0.035, -0.020, 0.005])
    assert found.rows[0].ratio == pytest.approx(1.7)
    assert found.ratio == pytest.approx(220 / 130)
    table = found.as_rows()
    assert table[0]["share_ratio"] == pytest.approx(70 / 90) and table[0]["low"] is None


def test_the_interval_by_hand() -> None:
    """Logarithms 0 and 2 against 5 and 5: 4 apart, standard error 1, one degree of freedom: 12.706 to each side."""
    ratio, ci95 = ratio_of([1.0, math.e**2], [math.e**5, math.e**5])
    assert ratio == pytest.approx(math.e**4) and ci95 is not None
    assert math.log(ci95[0]) == pytest.approx(4 - 12.7062, abs=1e-3)
    assert math.log(ci95[1]) == pytest.approx(4 + 12.7062, abs=1e-3)


def test_where_there_is_no_interval() -> None:
    """Of one round, and of a time of 0, which has no ratio either."""
    ratio, ci95 = ratio_of([1.0], [2.0])
    assert ratio == pytest.approx(2.0) and ci95 is None
    assert ratio_of([0.0, 1.0], [2.0, 2.0]) == (None, None)
    assert ratio_of([], []) == (None, None)


def test_what_fusion_removed_is_named_first() -> None:
    """The activation that runs by itself is part of the row of its convolution."""
    left = profile([[layer("c", "Conv", 100, (1, 8)), layer("g", "Gemm", 10)]], label="fused")
    right = profile(
        [[layer("c", "Conv", 95, (1, 8)), layer("r", "Relu", 60, (1, 8)), layer("g", "Gemm", 12)]],
        label="plain",
    )
    found = difference(left, right)
    assert found.rows[0].right == ("c", "r") and found.rows[0].difference_ms == pytest.approx(0.055)
    words = sentences(found)
    assert "Most of it: c + r, which fused runs as one layer, c, +0.055 ms (96% of the difference)." in words
    assert "fused runs 1 layers less, in 1 fused ones." in words


def test_a_difference_within_the_interval_is_none() -> None:
    """Rounds that differ as much as the sides do: nothing is named as its maker, and no row is a share of it."""
    left = profile([[layer("c", "Conv", 100)]], [[layer("c", "Conv", 140)]])
    right = profile([[layer("c", "Conv", 150)]], [[layer("c", "Conv", 110)]], label="b")
    assert [row["share_ratio"] for row in difference(left, right).as_rows()] == [None, None]
    words = sentences(difference(left, right))
    assert words[1].startswith("No difference is shown") and not any("Most of it" in each for each in words)


def test_what_makes_most_of_it_may_itself_be_undecided() -> None:
    """A run takes 230 instead of 200 ms in every round; of that one layer makes 20 ms, from 60, 100 and 140 ms to 80,
    120 and 160: 1.22 times as long, of which the interval is 0.498 to 3.01 (errors of the logarithms 0.247 and 0.201,
    Student's 2.82 with 3.8 degrees of freedom).
    """
    left = summed("a", [100.0, 140.0, 60.0], [100.0, 61.0, 139.0], framework_ms=[200.0, 201.0, 199.0])
    right = summed("b", [120.0, 160.0, 80.0], [110.0, 71.0, 149.0], framework_ms=[230.0, 231.0, 229.0])
    found = difference(left, right)
    assert found.ci95 is not None and found.ci95[0] > 1
    low, high = found.rows[0].ci95 or (0, 0)
    assert math.log(found.rows[0].ratio or 0) == pytest.approx(0.2011, abs=1e-3)
    assert math.log(high / low) / 2 == pytest.approx(2.82 * math.hypot(0.2466, 0.2010), rel=0.01)
    assert sentences(found)[1] == (
        "Most of it: c0 (convolution), 1.22 times as long, +20 ms (67% of the difference; not decided: its own ratio's "
        f"interval, {low:.3g} to {high:.3g}, has 1 in it)."
    )


def test_of_one_round_nothing_is_decided() -> None:
    """It is told what made the difference in it, and that another may show none."""
    words = sentences(
        difference(summed("a", [1.0], framework_ms=[1.0]), summed("b", [2.0], framework_ms=[2.0]))
    )
    assert words[0].endswith(
        "One round has no interval. Whether another one would show the same is not decided."
    )


def test_rounds_that_do_not_differ_at_all_have_no_interval() -> None:
    """Layers of 3 us by a clock of 1 us: their ratio is not known to every digit."""
    ratio, ci95 = ratio_of([0.003, 0.003], [0.004, 0.004])
    assert ratio == pytest.approx(4 / 3) and ci95 is None


def test_the_largest_part_is_not_most_of_it() -> None:
    """Four layers that are 10 us slower each: none of them makes most of the difference."""
    sides = [[[layer(f"c{n}", "Conv", us + n, (1, n + 1)) for n in range(4)]] for us in (100, 110)]
    words = sentences(difference(profile(*sides[:1]), profile(*sides[1:], label="b")))
    assert words[1].startswith("The largest part of it: ") and words[1].endswith("(25% of the difference).")


def test_what_is_against_the_difference_is_not_its_maker() -> None:
    """One layer 100 us faster, another 130 us slower: the slower one makes it, and the faster one is told."""
    left = profile([[layer("c", "Conv", 300, (1, 8)), layer("g", "Gemm", 100, (1, 4))]])
    right = profile([[layer("c", "Conv", 200, (1, 8)), layer("g", "Gemm", 230, (1, 4))]], label="b")
    assert sentences(difference(left, right))[1] == (
        "More than all of it: g (matrix product), 2.3 times as long, +0.13 ms (433% of the difference); the other way: "
        "c (convolution), 0.667 times as long, -0.1 ms."
    )


def summed(label: str, *layers_ms: Sequence[float], framework_ms: Sequence[float]) -> Profile:
    """A profile whose layers have these times in each round, as they were added up."""
    layers = tuple(Layer(at, f"c{at}", "Conv", tuple(ms), (1, at + 1)) for at, ms in enumerate(layers_ms))
    return Profile(label, label, layers, tuple(framework_ms), runs=2)


def test_the_same_times_in_another_order_are_no_difference() -> None:
    """0.1 + 0.2 + 0.3 is 0.6000000000000001 and 0.3 + 0.2 + 0.1 is 0.6: no row differs, nothing is said to be against
    anything, and an interval about nothing is none; nor does 0 between the layers differ from a rounding of 0.
    """
    up, down = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert up != down
    left = summed("a", [up, up], [down, up], framework_ms=[1.2, up + up])
    right = summed("b", [down, up], [up, up], framework_ms=[up + up, 1.2])
    assert left.between_ms_by_round != right.between_ms_by_round
    found = difference(left, right)
    assert [row.difference_ms for row in found.rows] == [0.0, 0.0, 0.0] and found.difference_ms == 0.0
    assert (found.ratio, found.ci95) == (1.0, None)
    assert [row["share_ratio"] for row in found.as_rows()] == [None] * 3
    assert sentences(found) == [
        "A run takes 1.2 ms by a, 1.2 ms by b: 1 times as long. Its rounds are all alike: no interval.",
        "No difference is shown: both take the same time.",
    ]


def test_means_that_point_to_different_sides_show_no_difference() -> None:
    """Rounds of 1 and 9 ms against one of 4: 5 by 4 ms, 1 ms less, and 3 by 4 in the geometric mean, 1.33 times as
    long. Both are told by their names, and nothing is called what makes the difference.
    """
    found = difference(
        summed("a", [1.0, 9.0], framework_ms=[1.0, 9.0]), summed("b", [4.0], framework_ms=[4.0])
    )
    assert found.difference_ms == pytest.approx(-1) and found.ratio == pytest.approx(4 / 3)
    assert not found.one_way and not found.rows[0].one_way
    assert sentences(found) == [
        "A run takes 5 ms by a, 4 ms by b in the mean of its rounds; by their geometric mean 1.33 times as long. One "
        "round has no interval.",
        "No difference is shown: by one of the two means the one is slower, by the other it is not.",
    ]


def test_the_same_mean_of_other_rounds_is_not_the_same_time() -> None:
    """Rounds of 1 and 9 ms, and of 5: 0 ms apart, and 5 / 3 of each other."""
    found = difference(summed("a", framework_ms=[1.0, 9.0]), summed("b", framework_ms=[5.0]))
    assert found.difference_ms == 0 and found.ratio == pytest.approx(5 / 3)
    first, second = sentences(found)
    assert "by their geometric mean 1.67 times as long" in first and "both take the same time" not in second


def test_a_layer_whose_means_point_to_different_sides_is_told_without_its_ratio() -> None:
    """The layer of the rounds above is 1 ms less, which makes all of a run's 1 ms, of 101 by 100."""
    left = summed("a", [1.0, 9.0], [99.0, 91.0], framework_ms=[101.0, 101.0])
    right = summed("b", [4.0, 4.0], [95.0, 95.0], framework_ms=[100.0, 100.0])
    found = difference(left, right)
    assert found.one_way and not found.rows[0].one_way
    assert found.rows[0].ratio == pytest.approx(4 / 3)
    assert sentences(found)[1] == (
        "Most of it: c0 (convolution), -1 ms (100% of the difference; not decided: by one of its two means it is more, "
        "by the other less)."
    )


def test_a_difference_of_a_millionth_is_one() -> None:
    """1.000001 ms against 1 ms is 1e-6 ms."""
    found = difference(
        summed("a", [1.0], framework_ms=[1.0]), summed("b", [1.000001], framework_ms=[1.000001])
    )
    assert found.difference_ms == pytest.approx(1e-6) == found.rows[0].difference_ms


def test_one_layer_that_is_all_of_it_has_nothing_against_it() -> None:
    """Its 0.2 ms are the run's 0.2 ms but for rounding, and the other layer is the same: there is no other way."""
    first, other = 0.1 + 0.2, 0.3 + 0.2 + 0.1
    left = summed("a", [first], [0.1 + 0.2 + 0.3], framework_ms=[0.9])
    right = summed("b", [first + 0.2], [other], framework_ms=[1.1])
    found = difference(left, right)
    assert [row.difference_ms for row in found.rows] == pytest.approx([0.2, 0.0, 0.0])
    assert sentences(found)[1] == (
        "Most of it: c0 (convolution), 1.67 times as long, +0.2 ms (100% of the difference)."
    )


def test_stacks_are_compared_at_one_batch_size() -> None:
    """Of three runs the two of eight samples are set beside each other, and the one of a sample beside nothing."""
    subjects = [
        Subject(replace(profile([[layer("c", "Conv", us)]], label=label), run_id=label, about=about))
        for label, us, about in (
            ("small", 10, {"model": "m", "batch_size": 1}),
            ("fast", 80, {"model": "m", "batch_size": 8}),
            ("slow", 90, {"model": "m", "batch_size": 8}),
        )
    ]
    assert [(each["left"], each["right"]) for each in stacks(subjects)["comparisons"]] == [("fast", "slow")]


def test_means_of_all_runs_beside_those_of_the_middle_half_are_said() -> None:
    """OpenVINO's times have the disturbed run in them that is left out of the other's; of so few that none is left out
    nothing is said."""
    means = replace(summed("openvino", [1.0], framework_ms=[2.0]), means=True, runs=30)
    halves = replace(summed("onnxruntime", [1.0], framework_ms=[3.0]), runs=30, left_out=14)
    words = (
        "Times of openvino are means of all its 30 runs, for it tells no other; of onnxruntime the 14 of 30 that "
        "differ most are left out. What disturbed a single run is in the former alone."
    )
    assert unlike(difference(means, halves)) == unlike(difference(halves, means)) == [words]
    assert unlike(difference(means, replace(halves, left_out=0))) == []
    assert unlike(difference(means, replace(means, label="other"))) == []


def test_whatever_else_differs_is_said() -> None:
    """The newest run of one version is int8 with two instances, that of the other fp32: the version is not what makes
    the difference. Formats differ between two runtimes as such, and between two runs of one by choice."""
    about: dict[str, Any] = {
        "backend": "onnxruntime", "format": "onnx", "precision": "fp32", "instances": 1, "batching": None,
        "engine_settings": {}, "cores": None,
    }  # fmt: skip

    def said(**changes: Any) -> list[str]:
        left, right = (summed(label, [1.0], framework_ms=[2.0]) for label in ("a", "b"))
        found = difference(replace(left, about=about), replace(right, about=about | changes))
        return [text.removeprefix("Not the same in both: ") for text in unlike(found)]

    assert said() == said(engine_settings=None) == []
    assert said(precision="int8", instances=2) == ["precision, fp32 and int8.", "instances, 1 and 2."]
    assert said(batching={"max_batch_size": 8, "max_delay_ms": 5.0}) == [
        "batching, none and max_batch_size=8 max_delay_ms=5.0."
    ]
    assert said(engine_settings={"a": 1}) == ["settings of the engine, none and a=1."]
    assert said(format="ort") == ["format, onnx and ort."]
    assert said(format="openvino", backend="openvino") == []


def test_another_content_of_a_name_and_a_run_that_does_not_count_are_said() -> None:
    """Two versions of one model, one of them of an invalid run: neither is the stack's difference."""

    def subject(run: str, us: float, **about: str | None) -> Subject:
        made = replace(profile([[layer("c", "Conv", us)]], label=run), run_id=run)
        return Subject(replace(made, about={"model": "m", **about}))

    old = subject("old", 80, source="a" * 64, verdict="valid")
    new = subject("new", 90, source="b" * 64, verdict="invalid: the sender was late")
    (found,) = stacks([old, new])["comparisons"]
    assert found["sentences"][-2:] == [
        "Not the same in both: content of the model, aaaaaaaaaaaa and bbbbbbbbbbbb.",
        "new is invalid: the sender was late.",
    ]
    before = subject("before", 95, source=None, verdict="valid")
    (found,) = stacks([old, before])["comparisons"]
    assert not any("content" in text or "before is" in text for text in found["sentences"])


def test_one_file_has_one_precision_whatever_earlier_versions_called_it() -> None:
    """As the newest run calls it; beside another file it tells them apart."""

    def subject(run: str, **about: str) -> Subject:
        return Subject(replace(profile([[layer("c", "Conv", 80)]], label="a"), run_id=run, about=about))

    new = subject("new", digest="d", precision="int8", at="2026-02")
    old = subject("old", digest="d", precision="fp32", at="2026-01")
    other = subject("other", digest="e", precision="fp32", at="2026-01")
    assert [each.profile.label for each in labelled([new, old])] == ["a (new)", "a (old)"]
    assert [each.profile.label for each in labelled([new, old, other])] == [
        "a precision=int8 (new)",
        "a precision=int8 (old)",
        "a precision=fp32",
    ]
    left, right = (subject.profile for subject in labelled([new, old]))
    assert right.about["precision"] == "int8" and unlike(difference(left, right)) == []
