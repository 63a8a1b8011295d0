"""Who calibrates whom in a list of models, against calculations by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.cutting import BrickWork, CutModel
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.report.tables import percent, words
from inferbench_tasks.brick_jobs.result import BricksResult, PredictedModel
from inferbench_tasks.brick_jobs.summary import summary
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.perfdb.documents import SubmissionInfo
from tests.unit.bricks.builders import result


def brick(name: str, warm_ns: float, streamed_ns: float) -> Result:
    times = {"warm": (warm_ns,) * 3, "streamed": (streamed_ns,) * 3}
    return result(name, *times["warm"]).model_copy(update={"rounds_ns": times})


def bricks(warm_ns: float, streamed_ns: float) -> dict[str, Result]:
    """Those of all models: each has bricks of its own, a and b, for models of the same bricks are one model."""
    return {f"{name}{at}": brick(f"{name}{at}", warm_ns, streamed_ns) for name in "ab" for at in range(7)}


#: Bricks of 10 ns each; streamed far off, so that nothing takes these times.
KNOWN = bricks(10.0, 1000.0)


def cut(at: int, operators: str, parts: tuple[str, ...] = ("a",), granularity: str = "1") -> CutModel:
    """``parts``: by their names without the model's place."""
    return CutModel(
        at=at, name=f"m{at}", copies=1, task=None, digest=str(at), batch_size=1, granularity=granularity,
        layers=len(parts), operators=tuple(operators), whole=f"{WHOLE}{at}",
        parts=tuple(f"{part}{at}" for part in parts), needs=((),) * len(parts),
    )  # fmt: skip


def wholes(*times: float) -> dict[str, Result]:
    """Place -> the model's own time, ns, beside the bricks'."""
    return KNOWN | {f"{WHOLE}{at}": result(f"{WHOLE}{at}", *[time] * 3) for at, time in enumerate(times)}


def factors(
    cuts: list[CutModel], known: dict[str, Result], constructor: str = "sequential"
) -> list[float | None]:
    made = predictions(cuts, known, 3, constructor)
    return [made[one.at][0].factor if one.at in made else None for one in cuts]


def test_the_first_models_are_calibrated_by_the_fourth() -> None:
    """11, 12, 13, 14 and 15 over sums of 10: each by the first three others, which are never itself."""
    found = factors([cut(at, "CRGSM"[at]) for at in range(5)], wholes(11, 12, 13, 14, 15))
    by = [(1.2, 1.3, 1.4), (1.1, 1.3, 1.4), (1.1, 1.2, 1.4), (1.1, 1.2, 1.3), (1.1, 1.2, 1.3)]
    assert found == pytest.approx([math.prod(three) ** (1 / 3) for three in by])


def test_the_same_model_otherwise_made_does_not_calibrate() -> None:
    """The first two have the same operators: of four models only two are left for each, too few; of five the twin of
    the first calibrates none, neither its own model nor another beside it."""
    four = [cut(0, "C"), cut(1, "C"), cut(2, "R"), cut(3, "G")]
    assert factors(four, wholes(11, 99, 12, 13)) == [None] * 4
    found = factors([*four, cut(4, "S")], wholes(11, 99, 12, 13, 14))
    own, others = (1.2 * 1.3 * 1.4) ** (1 / 3), (1.1 * 1.3 * 1.4) ** (1 / 3)
    assert found[:3] == pytest.approx([own, own, others])


def test_versions_of_one_model_do_not_make_each_other_sure() -> None:
    """Three versions that took 11 over sums of 10, and two others that took 12 and 16: the interval of the sixth is of
    the three models' logarithms, 4.303 s root(1 + 1/3), and not of five that are mostly alike."""
    cuts = [cut(at, operators) for at, operators in enumerate("CCCRGS")]
    [last] = predictions(cuts, wholes(11, 11, 11, 12, 16), 5)[5]
    logs = [math.log(ratio) for ratio in (1.1, 1.2, 1.6)]
    mean = sum(logs) / 3
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2)
    half = 4.302652729911275 * spread * math.sqrt(4 / 3)
    assert last.calibrated_by == ["m0", "m3", "m4"] and last.calibrated_by_class is None
    assert last.best.ms == pytest.approx(10e-6 * math.exp(mean))
    assert last.best.high_ms == pytest.approx(last.best.ms * math.exp(half))


def test_what_was_disturbed_calibrates_nobody_and_is_not_judged() -> None:
    """11, 12, 13, 14 and 50 over sums of 10, the last while others ran: the first is predicted by 12, 13 and 14, and
    the errors are of four models. Where that leaves two others, nothing calibrates."""
    cuts = [cut(at, "MCRGS"[at]) for at in range(5)]
    known = wholes(50, 11, 12, 13, 14)
    known[f"{WHOLE}0"] = known[f"{WHOLE}0"].model_copy(update={"disturbed": "busy"})
    made = predictions(cuts, known, 3)
    assert made[1][0].calibrated_by == ["m2", "m3", "m4"]
    assert made[1][0].factor == pytest.approx((1.2 * 1.3 * 1.4) ** (1 / 3))
    assert made[0][0].calibrated_by == ["m1", "m2", "m3"]
    [row] = summary(cuts, known, made)
    assert (row["judged"], row["disturbed"], row["plain"]["models"]) == (4, 1, 4)
    assert row["plain"]["geometric_mean"] == pytest.approx((11 * 12 * 13 * 14 / 10**4) ** -0.25)
    assert row["speedup_ratio"] == pytest.approx((11 + 12 + 13 + 14) / (4 * 10))
    assert said_of(row).endswith("1 that were measured while the machine was disturbed are left out.")
    assert [factors(cuts[:4], known)[at] for at in (1, 2, 3)] == [None] * 3
    all_disturbed = {name: one.model_copy(update={"disturbed": "busy"}) for name, one in known.items()}
    [none] = summary(cuts, all_disturbed, predictions(cuts, all_disturbed, 3))
    assert (none["judged"], none["disturbed"], none["plain"], none["speedup_ratio"]) == (0, 5, None, None)
    assert "no prediction is judged, for 5 model(s)" in said_of(none)


def test_all_others_tell_how_far_a_prediction_is_off() -> None:
    """11 to 15 over sums of 10: the first three calibrate the sixth, and all five tell its interval, calibrated and
    not; a sixth that is off tells nothing of itself. Nobody's own family is in what other families say."""
    cuts = [cut(at, "CRGSML"[at]) for at in range(6)]
    [last] = predictions(cuts, wholes(11, 12, 13, 14, 15, 99), 3)[5]
    logs = [math.log(ratio) for ratio in (1.1, 1.2, 1.3, 1.4, 1.5)]
    mean = sum(logs) / 5
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / 4)
    assert last.calibrated is not None and last.uncalibrated is not None
    assert (last.judged_by, last.interval_judged_by, last.calibrated_by) == (5, 5, ["m0", "m1", "m2"])
    assert math.log(last.best.high_ms / last.best.ms) == pytest.approx(
        2.7764451051977987 * spread * math.sqrt(4 / 3)
    )
    rms = math.sqrt(sum(log * log for log in logs) / 5)
    assert math.log(last.uncalibrated.high_ms / 10e-6) == pytest.approx(2.570581835636314 * rms)
    assert last.told_by == [f"{WHOLE}{at}" for at in range(5)] and last.calibrating == last.told_by[:3]
    assert last.calibrated_by_other_families is None
    named = [one.model_copy(update={"name": f"{'ab'[at < 4]}{at}"}) for at, one in enumerate(cuts)]
    [again] = predictions(named, wholes(14, 13, 12, 11, 15, 99), 3)[5]
    assert again.calibrated_by == ["b0", "b1", "b2"] and again.calibrated is not None
    assert (
        again.calibrated_by_other_families is not None
    )  # by the same three: its own family comes after them
    assert again.calibrated_by_other_families.ms == again.calibrated.ms
    [first] = predictions(named, wholes(14, 13, 12, 11, 15, 99), 3)[0]
    assert first.calibrated is not None and first.calibrated_by_other_families is None  # two are left


def test_the_state_that_others_were_nearer_in_is_predicted() -> None:
    """Models take 19 to 21 ns, their sums are 10 warm and 20 streamed: each is predicted by its streamed sum times the
    others' factors of these, by class as well; the warm sum stands beside it. What the model itself takes decides
    nothing, and where two others are left the warm one is taken."""
    known = bricks(10.0, 20.0)
    cuts = [mixed(at, "CRGSM"[at], ("a",)) for at in range(5)]
    times = {f"{WHOLE}{at}": result(f"{WHOLE}{at}", *[ns] * 3) for at, ns in enumerate((19, 20, 21, 20, 10))}
    [last] = predictions(cuts, known | times, 3)[4]
    assert (last.state, last.constructed.ms, last.warm_sum.ms) == ("streamed", 20e-6, 10e-6)
    assert last.factor == pytest.approx((0.95 * 1.05) ** (1 / 3)) and last.calibrated is not None
    assert last.calibrated.ms == pytest.approx(20e-6 * (0.95 * 1.05) ** (1 / 3))
    assert last.by_operators[0]["ms"] == pytest.approx(20e-6)
    [by_four] = predictions(cuts, known | times, 4)[0]
    assert by_four.class_factors is not None and by_four.class_factors["dense"] < 1.05
    [one, *_] = [predictions(cuts[:3], known | times, 0)[at][0] for at in range(3)]
    assert (one.state, one.constructed.ms) == ("warm", 10e-6)


def test_one_that_is_wanted_is_predicted_as_among_all() -> None:
    """The others tell of it, and have no prediction themselves."""
    cuts, known = [cut(at, "CRGSM"[at]) for at in range(5)], wholes(11, 12, 13, 14, 15)
    assert predictions(cuts, known, 3, wanted={2}) == {2: predictions(cuts, known, 3)[2]}


def test_other_families_decide_on_the_state_as_if_there_were_no_others() -> None:
    """Streamed sums are right for a family of four, warm ones for three others: the warm sum is what these alone would
    predict of the first, with their factor of 1."""
    known = bricks(10.0, 20.0)
    names, took = ("b1", "b2", "b3", "b4", "x", "y", "z"), (20, 20, 20, 20, 10, 10, 10)
    cuts = [cut(at, "CRGSMLT"[at]).model_copy(update={"name": name}) for at, name in enumerate(names)]
    all_known = known | {f"{WHOLE}{at}": result(f"{WHOLE}{at}", *[ns] * 3) for at, ns in enumerate(took)}
    [one] = predictions(cuts, all_known, 3)[0]
    assert one.calibrated_by_other_families is not None
    assert one.calibrated_by_other_families.ms == pytest.approx(10e-6)


def test_models_of_another_size_tell_nothing_where_three_of_its_size_do() -> None:
    """The first of the list is 1,000 times as large and takes twice its sum: three others of the fifth's size calibrate
    that, and tell how far it is off. Of the first nobody of its size tells, so that all others do."""
    known = KNOWN | {"b0": brick("b0", 10_000.0, 10_000_000.0)}
    cuts = [cut(0, "C", ("b",)), *(cut(at, "CRGSM"[at]) for at in range(1, 5))]
    own = {
        f"{WHOLE}{at}": result(f"{WHOLE}{at}", *[ns] * 3) for at, ns in enumerate((20_000, 11, 11, 11, 12))
    }
    made = predictions(cuts, known | own, 3)
    assert made[4][0].calibrated_by == ["m1", "m2", "m3"] and made[4][0].factor == pytest.approx(1.1)
    assert made[4][0].judged_by == 3 and made[4][0].best.high_ms == pytest.approx(11e-6)
    assert made[4][0].told_by == [f"{WHOLE}{at}" for at in (1, 2, 3)] == made[4][0].calibrating
    assert made[0][0].calibrated_by == ["m1", "m2", "m3"] and made[0][0].judged_by == 4


def test_sums_are_judged_with_the_interval_that_others_tell() -> None:
    """Four models take 1.2 and 1.3 times their sums: with how far the others are off all four are held. Of two nobody
    tells it, and the rounds alone, which do not differ, hold none."""
    cuts = [cut(at, "CRGS"[at]) for at in range(4)]
    known = wholes(12, 12, 13, 13)
    [row] = summary(cuts, known, predictions(cuts, known, 0))
    assert row["plain"]["interval_ratio"] == 1 and row["calibrated"] is None
    [row] = summary(cuts[:2], known, made := predictions(cuts[:2], known, 0))
    assert row["plain"]["interval_ratio"] == 0
    assert made[0][0].uncalibrated is None and made[0][0].interval_judged_by == 0


def test_results_of_before_stay_as_they_were() -> None:
    """Without who judges: a calibrated one is judged by those that calibrate it, a sum by nobody."""
    [one] = predictions([cut(at, "CRGS"[at]) for at in range(4)], wholes(11, 12, 13, 14), 3)[3]
    old = one.model_dump(exclude={"judged_by", "told_by", "uncalibrated", "calibrated_by_other_families"})
    assert PredictedModel.model_validate(old).interval_judged_by == 3
    assert PredictedModel.model_validate(old).calibrating == []
    sums = PredictedModel.model_validate(old | {"calibrated": None, "calibrated_by": None})
    assert sums.best == sums.constructed and sums.interval_judged_by == 0


def test_a_critical_path_is_calibrated_by_critical_paths() -> None:
    """a (10) beside b (10): models that took 11 are 1.1 times the path, and 0.55 times the sum."""
    cuts = [cut(at, "CRGS"[at], ("a", "b")) for at in range(4)]
    assert factors(cuts, wholes(11, 11, 11, 11), "parallel") == pytest.approx([1.1] * 4)
    assert factors(cuts, wholes(11, 11, 11, 11)) == pytest.approx([0.55] * 4)


def test_models_that_lack_a_brick_or_are_cut_otherwise_do_not_calibrate() -> None:
    """Of five models one lacks a brick and one is cut at another granularity: two others are left for each, too few."""
    cuts = [
        cut(0, "C"),
        cut(1, "R"),
        cut(2, "G"),
        cut(3, "S", ("a", "unknown")),
        cut(4, "M", granularity="2"),
    ]
    assert factors(cuts, wholes(11, 12, 13, 14, 15)) == [None] * 5


def said_of(row: dict[str, Any]) -> str:
    """What a report says of a row of the summary."""
    cut_run = BricksResult(
        run_id="x.000", job_id="x", submission=SubmissionInfo(name="x"), verdict=VALID, role="cut",
        counts={"summary": [row]},
    )  # fmt: skip
    [said] = words([cut_run])
    return said


def mixed(at: int, operators: str, parts: tuple[str, ...]) -> CutModel:
    """a is dense, b is bound by memory."""
    work = [
        BrickWork(identity=f"{name}{at}", operators=("Conv",), flops=flops, moved_bytes=1.0)
        for name, flops in (("a", 100.0), ("b", 1.0))
    ]
    return cut(at, operators, parts).model_copy(update={"work": tuple(work)})


def test_more_than_three_models_calibrate_by_class_and_never_the_one_that_is_predicted() -> None:
    """Memory takes twice what its bricks do: by class that is seen, also of a model unlike the others; both are shown,
    with who calibrates. The model's own time changes nothing of its prediction."""
    parts = [
        ("a",) * 5,
        ("a",) * 4 + ("b",),
        ("a", "b"),
        ("a", "b", "b", "b"),
        ("b", "b", "b", "b", "a"),
        ("b",) * 5,
    ]
    cuts = [mixed(at, "CRGSML"[at], names) for at, names in enumerate(parts)]
    times = [10.0 * names.count("a") + 20.0 * names.count("b") for names in parts]
    [last] = predictions(cuts, wholes(*times), 5)[5]
    assert last.calibrated_by == ["m0", "m1", "m2", "m3", "m4"]
    assert last.by_class and last.best == last.calibrated_by_class and last.calibrated is not None
    assert (
        last.class_factors is not None
        and last.class_factors["memory-bound"] > 1.7 > last.class_factors["dense"]
    )
    truth = times[5] / 1e6
    assert abs(last.best.ms / truth - 1) < 0.15 < abs(last.calibrated.ms / truth - 1)
    [again] = predictions(cuts, wholes(*times[:5], 5000.0), 5)[5]
    assert again.best == last.best and again.calibrated == last.calibrated
    [by_three] = predictions(cuts, wholes(*times), 3)[5]
    assert by_three.calibrated_by_class is None and by_three.best == by_three.calibrated


def test_the_summary_is_of_what_is_predicted() -> None:
    """Where classes are nearer they are what is predicted: the report's sentence is of these, the geometric mean of
    predicted over measured, and not of the one factor, by which nobody predicts there."""
    parts = [("a",) * 5, ("a",) * 4 + ("b",), ("a", "b"), ("a", "b", "b", "b"), ("b", "b", "a"), ("b",) * 5]
    cuts = [mixed(at, "CRGSML"[at], names) for at, names in enumerate(parts)]
    times = [10.0 * names.count("a") + 20.0 * names.count("b") for names in parts]
    made = predictions(cuts, wholes(*times), 5)
    [row] = summary(cuts, wholes(*times), made)
    ratios = [made[at][0].best.ms / (time / 1e6) for at, time in enumerate(times)]
    assert all(made[at][0].by_class for at in made)
    assert row["predicted"]["models"] == 6
    assert row["predicted"]["geometric_mean"] == pytest.approx(math.prod(ratios) ** (1 / 6))
    assert row["predicted"]["mean_absolute_error_ratio"] == pytest.approx(
        sum(abs(ratio - 1) for ratio in ratios) / 6
    )
    assert row["predicted"]["mean_absolute_error_ratio"] < row["calibrated"]["mean_absolute_error_ratio"] / 2
    said = said_of(row)
    assert f"{percent(row['predicted']['mean_absolute_error_ratio'])} off on average, each calibrated" in said


def test_a_count_of_before_names_were_kept_stays_readable() -> None:
    """Results that were stored say how many, not which."""
    [one] = predictions([cut(at, "CRGS"[at]) for at in range(4)], wholes(11, 12, 13, 14), 3)[3]
    old = one.model_dump() | {"calibrated_by": 3}
    assert PredictedModel.model_validate(old).calibrated_by == ["not recorded"] * 3
