"""Estimates of bricks that were never measured: what they are learned from, and how far off they say that they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.counting import COUNT
from inferbench_tasks.brick_jobs.cutting import BrickWork, CutModel
from inferbench_tasks.brick_jobs.estimates import (
    FEWEST_BRICKS,
    Known,
    by_family,
    estimated,
    held_back,
    known_bricks,
)
from inferbench_tasks.brick_jobs.families import family_of
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.bricks.measure.method import STATES, Method, Setting
from inferbench_tasks.bricks.prediction import (
    Estimate,
    StandIns,
    share_ratio,
    stand_ins,
    stand_ins_ratio,
    with_stand_ins,
)
from inferbench_tasks.bricks.results import Result

SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="r")


def brick(
    name: str,
    ns: float,
    family: str,
    flops: float = 1e6,
    operator: str = "Conv",
    streamed_ns: float | None = None,
    times: int = 1,
) -> Known:
    """``streamed_ns``: twice the warm time unless given; ``times``: how often it stands in the family's models."""
    work = BrickWork(identity=name, operators=(operator,), flops=flops, moved_bytes=flops / 10)
    times_ns = {"warm": ns, "streamed": 2 * ns if streamed_ns is None else streamed_ns}
    return Known(work, times_ns, {family: times})


def result(identity: str, ns: float) -> Result:
    return Result(
        identity=identity, key=identity, operators=("Conv",), setting=SETTING, session="s", method=Method(),
        rounds_ns={"warm": (ns,) * 3, "streamed": (2 * ns,) * 3}, raw_ns={},
    )  # fmt: skip


def cut_model(
    at: int, operators: str, parts: tuple[str, ...], needs: tuple[tuple[int, ...], ...] | None = None
) -> CutModel:
    """``needs``: nothing before it unless given."""
    return CutModel(
        at=at, name=f"m{at}", copies=1, task=None, digest=str(at), batch_size=1, granularity="1", layers=len(parts),
        operators=tuple(operators), whole=f"whole-{at}", parts=parts, needs=needs or ((),) * len(parts),
    )  # fmt: skip


#: Of three families of the same work one of which takes twice as long, the root mean square of the logarithms: held
#: back that one is off by 2, each other by root 2.
TWICE_AS_LONG = math.log(2) * math.sqrt((1 + 1 / 4 + 1 / 4) / 3)
#: Student's for 95% with three degrees of freedom.
T3 = 3.182446305284263


def test_the_error_is_that_of_families_that_are_held_back() -> None:
    """Three families of the same work, one of which takes twice as long. Held back, that one is estimated at half of
    its time; each other at the geometric mean of one that is twice as slow and one that is alike: root 2 of its
    own."""
    known = [
        brick(f"{family}{at}", 200.0 if family == "a" else 100.0, family)
        for family in "abc"
        for at in range(FEWEST_BRICKS)
    ]
    spreads, families = held_back(known)
    assert families == 3 and spreads is not None
    assert spreads == pytest.approx(dict.fromkeys(STATES, TWICE_AS_LONG))


def test_a_brick_that_is_estimated_wrongly_counts_as_often_as_it_stands_in_the_model() -> None:
    """A family of X, of 100 ns, 11 times in its model, and Y, of 1,100 ns, once. All others' bricks take 200 ns for the
    work of X and 1,100 ns for that of Y. So its model, which takes 11 x 100 + 1,100 = 2,200 ns, is estimated at 11 x
    200 + 1,100 = 3,300: 1.50 of that, and not the (200 + 1,100) / (100 + 1,100) = 1.08 of its two bricks."""
    known = [brick("x", 100.0, "a", 1e6, times=11), brick("y", 1_100.0, "a", 1e9)]
    known += [
        brick(f"{family}{at}{flops}", ns, family, flops)
        for family in "bc"
        for at in range(FEWEST_BRICKS)
        for flops, ns in ((1e6, 200.0), (1e9, 1_100.0))
    ]
    for state in STATES:
        [own, *_] = by_family(known)[state]
        assert (own.family, own.bricks) == ("a", 2) and own.ratio == pytest.approx(1.5, rel=0.01)


def test_streamed_sums_have_the_error_of_streamed_sums() -> None:
    """Warm, all three families take the same; streamed, one takes twice as long: its warm sum is found again exactly,
    and how far streamed sums are off is told by streamed ones. Which state is predicted decides whose error the
    interval has, of the same estimated brick: half of 200 ns of warm times, half of 400 of streamed ones."""
    known = [
        brick(f"{family}{at}", 100.0, family, streamed_ns=400.0 if family == "a" else 200.0)
        for family in "abc"
        for at in range(FEWEST_BRICKS)
    ]
    found = estimated([brick("new", 0.0, "d").work], known)
    assert found is not None and found.families == 3
    assert found.spreads == pytest.approx({"warm": 0.0, "streamed": TWICE_AS_LONG}, abs=1e-9)
    cuts = [cut_model(0, "M", ("a", "b"))]
    cuts += [cut_model(at, "MCRG"[at], (f"a{at}", f"b{at}")) for at in range(1, 4)]
    unmeasured = {
        0: {
            "estimated": {
                state: stand_ins("b", spread, found.families) for state, spread in found.spreads.items()
            }
        }
    }
    bricks = {name: result(name, 100.0) for cut in cuts for name in cut.parts}
    for state, ns in (("warm", 200.0), ("streamed", 400.0)):
        wholes = {f"whole-{at}": result(f"whole-{at}", ns) for at in range(1, 4)}
        [one] = predictions(cuts, bricks | wholes, 0, "sequential", unmeasured, wanted={0})[0]
        low = ns / 2 * (1 - math.exp(-T3 * found.spreads[state]))
        assert one.state == state and one.constructed.ms == pytest.approx(ns / 1e6)
        assert one.constructed.low_ms == pytest.approx((ns - low) / 1e6)


def test_a_brick_of_two_families_teaches_neither() -> None:
    """What is held back has none of its bricks among what it is estimated by: all are shared, so nothing is left."""
    shared = dict.fromkeys("abc", 1)
    known = [
        Known(one.work, one.times_ns, shared) for one in (brick(f"{at}", 100.0, "a") for at in range(60))
    ]
    assert held_back(known) == (None, 0)
    assert estimated([brick("new", 1.0, "d").work], known) is None


def test_times_that_grow_with_the_work_are_found_again() -> None:
    """A nanosecond for each thousand FLOP: a size between those that were measured is within 10%; both states."""
    known = [
        brick(f"{family}{at}", flops / 1e3, family, flops)
        for family in "abcd"
        for at, flops in enumerate(10 ** (6 + 3 * i / 14) for i in range(15))
    ]
    found = estimated([brick("new", 0.0, "d", 10**7.6).work], known)
    assert found is not None and found.bricks == 60 and found.families == 4
    assert max(found.spreads.values()) < 0.1
    assert found.ns["new"]["warm"] == pytest.approx(10**4.6, rel=0.1)
    assert found.ns["new"]["streamed"] == pytest.approx(2 * found.ns["new"]["warm"], rel=0.01)


def test_too_little_is_no_estimate() -> None:
    """Two families, a handful of bricks, or an operator that nobody measured: no figure, whatever the work."""
    two = [brick(f"{family}{at}", 100.0, family) for family in "ab" for at in range(40)]
    few = [brick(f"{family}{at}", 100.0, family) for family in "abc" for at in range(5)]
    assert estimated([brick("new", 1.0, "d").work], two) is None
    assert estimated([brick("new", 1.0, "d").work], few) is None
    enough = [brick(f"{family}{at}", 100.0, family) for family in "abc" for at in range(40)]
    assert estimated([brick("new", 1.0, "d").work], enough) is not None
    assert estimated([brick("new", 1.0, "d", operator="LSTM").work], enough) is None
    assert estimated([], two) is None


def test_the_interval_has_the_estimates_error() -> None:
    """100 +- 3, half of it estimated, off by 0.1 in the logarithm (RMS of 4, t = 2.776): 50 x (1 - exp(-0.2776))
    = 12.12 below and 50 x (exp(0.2776) - 1) = 16.00 above, each with the 3 as squares."""
    of = [result("a", 50), result("b", 50)], [[], [0]], "warm"
    rounds = Estimate(100.0, 97.0, 103.0)
    wide = with_stand_ins(rounds, stand_ins("a", 0.1, 4), *of)
    assert wide.ns == 100
    assert wide.low_ns == pytest.approx(100 - math.hypot(3, 12.12), abs=0.01)
    assert wide.high_ns == pytest.approx(100 + math.hypot(3, 16.00), abs=0.01)
    assert with_stand_ins(rounds, stand_ins("z", 9.0, 4), *of) == rounds
    assert with_stand_ins(rounds, stand_ins("ab", 9.0, 4), *of).low_ns >= 0


#: b (6) and c (4) both take from a (2): the critical path is a and b, 8 of the 12 that all take together.
FORK = [result("a", 2), result("b", 6), result("c", 4)], [[], [0], [0]], "warm"


def test_of_a_critical_path_a_share_is_what_lies_on_it() -> None:
    """b is three quarters of the 8, not half of 12; c takes no time that anybody waits for, a and b are all of it."""
    assert share_ratio(FORK[0], FORK[1], {"b"}, "warm", "parallel") == pytest.approx(0.75)
    assert share_ratio(FORK[0], FORK[1], {"b"}, "warm") == pytest.approx(0.5)
    assert share_ratio(FORK[0], FORK[1], {"c"}, "warm", "parallel") == 0
    assert share_ratio(FORK[0], FORK[1], {"a", "b"}, "warm", "parallel") == 1
    assert share_ratio(FORK[0], FORK[1], {"c"}, "warm", "streams:1") == pytest.approx(1 / 3)


def test_the_interval_of_a_critical_path_is_by_the_estimates_that_are_on_it() -> None:
    """b may be half or twice as long: then the way is a and c, 6, or a and b, 14. c may be so, too: a and b stay the
    longest way while it is shorter, and a and c are 10 where it is twice as long."""
    estimate = Estimate(8.0, 8.0, 8.0)
    of_b, of_c = (StandIns(frozenset(name), 0.5, 2.0) for name in "bc")
    assert with_stand_ins(estimate, of_b, *FORK, "parallel") == Estimate(8.0, 6.0, 14.0)
    assert with_stand_ins(estimate, of_c, *FORK, "parallel") == Estimate(8.0, 8.0, 10.0)
    assert with_stand_ins(Estimate(12.0, 12.0, 12.0), of_b, *FORK) == Estimate(12.0, 9.0, 18.0)


def test_what_is_covered_is_of_the_time_that_is_predicted() -> None:
    """Of a model's critical path all but a quarter is estimated, though half of its bricks' time is measured: nobody
    is told that half of the prediction is. Where what is estimated takes twice as long, as it may, all but a seventh
    (2 of 14) is; of the sum it stays half, as nothing but its own time changes."""
    cut = cut_model(0, "C", ("a", "b", "c"), ((), (0,), (0,)))
    known = {one.identity: one for one in FORK[0]}
    unmeasured = {0: {"estimated": dict.fromkeys(STATES, StandIns(frozenset("b"), 0.5, 2.0))}}
    for constructor, covered, low, high in (
        ("parallel", 2 / 14, 6e-6, 14e-6),
        ("sequential", 0.5, 9e-6, 18e-6),
    ):
        ((one,),) = predictions([cut], known, 0, constructor, unmeasured).values()
        assert one.coverage_ratio == pytest.approx(covered)
        assert (one.constructed.low_ms, one.constructed.high_ms) == pytest.approx((low, high))


@pytest.mark.parametrize("constructor", ["parallel", "streams:2"])
def test_a_way_that_may_be_the_longest_is_not_called_measured(constructor: str) -> None:
    """4.0 measured beside 3.9 estimated, half more or less: the longest way is measured, all of it, and where the
    estimate is short, 5.85, nothing of it is. Without anything that may be longer all is: 3.9 within a hundredth."""
    bricks = [result("a", 4.0), result("b", 3.9)]
    needs: list[list[int]] = [[], []]
    assert share_ratio(bricks, needs, {"b"}, "warm", constructor) == 0
    half = StandIns(frozenset("b"), 0.5, 1.5)
    assert stand_ins_ratio(bricks, needs, half, "warm", constructor) == pytest.approx(1)
    little = StandIns(frozenset("b"), 0.99, 1.01)
    assert stand_ins_ratio(bricks, needs, little, "warm", constructor) == 0
    assert stand_ins_ratio(bricks, needs, half, "warm") == pytest.approx(3.9 / 7.9)


def test_a_share_is_of_time_not_of_bricks() -> None:
    """One of three bricks stands twice in the model, and makes 20 of 25."""
    bricks = [result("a", 10), result("b", 1), result("c", 4), result("a", 10)]
    assert share_ratio(bricks, [[]] * 4, {"a"}, "warm") == pytest.approx(20 / 25)
    assert share_ratio(bricks, [[]] * 4, set(), "warm") == 0


def test_what_teaches_is_what_was_measured_of_counted_models() -> None:
    """A brick of two models is of both families, as often as it stands in each; one without a time, or of a model that
    was cut before work was counted, teaches nothing."""
    work = [brick(name, 0.0, "").work.model_dump(mode="json") for name in "ab"]
    cuts: list[dict[str, Any]] = [
        {"model": "resnet18", "parts": ["a", "b", "a"], "work": work},
        {"model": "our-model.2", "parts": ["a"], "work": work[:1]},
        {"model": "old", "parts": ["a"]},
    ]
    [one] = known_bricks(cuts, {"a": result("a", 5.0), "z": result("z", 1.0)})
    assert one.work.identity == "a" and one.times_ns == {"warm": 5.0, "streamed": 10.0}
    assert one.families == {family_of("resnet18"): 2, "our": 1}


@pytest.mark.parametrize(("count", "taught"), [(None, "a"), (1, "a"), (COUNT, "abc")])
def test_work_that_was_counted_wrongly_teaches_nothing(count: int | None, taught: str) -> None:
    """Of products and transposed convolutions, of cuts of an earlier version; until they are cut again."""
    work = [
        BrickWork(identity=name, operators=(operator,), flops=1.0, moved_bytes=1.0).model_dump(mode="json")
        for name, operator in (("a", "Conv"), ("b", "MatMul"), ("c", "ConvTranspose"))
    ]
    cut: dict[str, Any] = {"model": "m", "parts": ["a", "b", "c"], "work": work}
    cut |= {} if count is None else {"work_count": count}
    found = known_bricks([cut], {name: result(name, 5.0) for name in "abc"})
    assert "".join(one.work.identity for one in found) == taught


def test_an_estimate_is_of_the_hosts_that_taught_it() -> None:
    """Of all of them: each measured brick is in what it was learned from."""
    known = [brick(f"{at}", 100.0 * (1 + at % 7), f"f{at % 3}", 1e6 * (1 + at % 7)) for at in range(60)]
    known = [
        replace(one, places=((home, f"host-{home}"),)) for one, home in zip(known, 30 * "ba", strict=True)
    ]
    found = estimated([brick("x", 0.0, "").work], known)
    assert found is not None and found.places == (("a", "host-a"), ("b", "host-b"))
    own = result("a", 5.0).model_copy(update={"home": "a", "host": "host-a"})
    work = [brick("a", 0.0, "").work.model_dump(mode="json")]
    assert known_bricks([{"model": "m", "work": work}], {"a": own})[0].places == (("a", "host-a"),)


def test_a_family_is_what_a_corpus_says() -> None:
    """ResNets of all sizes are one, and those of other blocks, whichever corpus they are in; a model of no corpus goes
    by the letters that it begins with."""
    residual = (
        "resnet50",
        "resnext50-32x4d",
        "se-resnet50",
        "senet154",
        "wide-resnet50-2",
        "resnet50v2",
        "open-nsfw",
    )
    assert {family_of(name) for name in (*residual, "resnet-of-mine")} == {"resnet"}
    assert family_of("my-resnet") == "my"
    assert family_of("resnet18") == family_of("resnet152") and family_of("vgg16") != family_of("resnet18")
    assert family_of("Ours-7b") == family_of("ours2") == "ours" and family_of("7b") == "7b"
