"""Configurations of an interleaved sweep are compared block by block, on disturbed machines too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.noise import pairs as simulated
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.differences import compare_runs
from inferbench_tasks.analysis.report.paired import Blocks, Pair, PairedRatio, change_of
from inferbench_tasks.analysis.report.paired_advice import against_first, choose, comparisons_of
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import paired_table
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import DeviceInfo
from tests.unit.analysis.builders import SECOND, named, records, view

DISTURBED = "disturbed: the hypervisor took 20% of the machine's CPU time (at most 5%)"


def sweep(
    ratio: float = 1.2,
    blocks: int = 8,
    *,
    verdict: str = "valid",
    noise: float = 0.02,
    order: Any = None,
    verdicts: dict[int, str] | None = None,
) -> list[RunView]:
    """Two configurations in turns on a machine that slows by 4% a run; the second takes ``ratio`` times as long."""
    rng = np.random.default_rng(7)
    views = []
    places = [(block, side) for block in range(blocks) for side in ((0, 1) if block % 2 == 0 else (1, 0))]
    for at, (block, side) in enumerate(places):
        slow = 1.04**at * (ratio if side else 1.0) * float(np.exp(rng.normal(0, noise)))
        begin = (at if order is None else order[at]) * 20 * SECOND
        views.append(
            view(
                records(3.0 * slow, noise=0.05, seed=at),
                f"inv.{at:03d}",
                (verdicts or {}).get(at, verdict),
                cpu_cores=0.2 * slow,
                job={"serve__threads": side + 1, "block": block + 1, "slo": None},
                extensions={
                    "measured_window": {
                        "start_ns": 2 * SECOND,
                        "end_ns": 10 * SECOND,
                        "epoch_offset_ns": begin,
                    }
                },
            )
        )
    return named(*views)


def test_pairs_see_through_a_drift_that_hides_the_difference_of_single_runs() -> None:
    """20% between configurations on a machine that drifts by 87% meanwhile: the pairs tell, the runs alone don't."""
    views = sweep(1.2)
    blocks = Blocks.among(views)
    assert blocks is not None
    one, two = blocks.configurations
    paired = blocks.ratio("p50_ms", one, two)
    assert paired is not None
    assert paired.ratio == pytest.approx(1.2, rel=0.03) and paired.blocks == 8
    assert 1.1 < paired.ci95[0] < 1.2 < paired.ci95[1] < 1.3
    p50s = [[v.figure("e2e_latency_ms.p50") for v in blocks.runs(key)] for key in (one, two)]
    assert min(p50s[1]) < max(p50s[0])


def test_blocks_of_two_client_hosts_are_not_compared() -> None:
    """A load from another host is measured by that one, through its link: as runs of two machines."""
    shared = {"host": "a", "second": {"host": "b"}, "third": {"host": "c"}}
    for hosts, compared in (
        (({"host": "a"}, {"host": "a"}), True),
        (({"host": "a"}, {"host": "b"}), False),
        ((shared, dict(shared)), True),
        ((shared, {**shared, "third": {"host": "d"}}), False),
    ):
        views = sweep(1.2)
        for view_ in views:
            assert view_.result is not None
            view_.result.extensions["client_host"] = hosts[view_.job["serve"]["threads"] - 1]
        blocks = Blocks.among(views)
        assert blocks is not None
        first, second = blocks.configurations
        assert (blocks.ratio("p50_ms", first, second) is not None) == compared


def test_blocks_that_ran_on_other_sets_of_hosts_are_not_compared() -> None:
    """A run on a and b is of another machine than one on a and c, or on a alone; in which order they are told is
    nothing."""
    for hosts, compared in (
        (("ab", "ba"), True),
        (("ab", "ac"), False),
        (("ab", "a"), False),
        (("a", "a"), True),
        (("a", "b"), False),
    ):
        views = sweep(1.2)
        for view_ in views:
            assert view_.result is not None
            each = [{"system": {"host": host}} for host in hosts[view_.job["serve"]["threads"] - 1]]
            view_.result.environment = {"hosts": each} if len(each) > 1 else each[0]
        blocks = Blocks.among(views)
        assert blocks is not None
        first, second = blocks.configurations
        assert (blocks.ratio("p50_ms", first, second) is not None) == compared


@pytest.mark.parametrize(
    ("one", "other", "compared"),
    [
        (("CPU", 2.0, 1), ("2 x CPU", 4.0, 2), True),  # two devices of two cores, as the one has
        (("CPU", 5.0, 1), ("2 x CPU", 4.0, 2), True),  # a machine of five, divided
        (("2 x CPU", 8.0, 2), ("3 x CPU", 9.0, 3), True),  # one of nine, divided in two ways
        (("2 x CPU", 4.0, 2), ("2 x CPU", 4.0, 2), True),
        (("2 x CPU", 4.0, 2), ("2 x CPU", 8.0, 2), False),
        (("CPU", 2.0, 1), ("2 x CPU", 8.0, 2), False),
        (("CPU", 2.0, 1), ("2 x Other", 4.0, 2), False),
        (("CPU", 2.0, 1), ("CPU", 4.0, 1), False),
        (("CPU", 5.0, 1), ("2 x CPU with 1 core for nginx", 4.0, 2), True),
        (("2 x CPU with 1 core for nginx", 4.0, 2), ("2 x CPU with 1 core for nginx", 4.0, 2), True),
        (
            ("2 x CPU", 4.0, 2),
            ("2 x CPU with 1 core for nginx", 4.0, 2),
            False,
        ),  # one had more of the machine
        (("2 x CPU", 6.0, 2), ("2 x CPU of 4 and 2 cores", 6.0, 2), False),
    ],
)
def test_what_further_devices_add_is_told_by_pairs(
    one: tuple[str, float, int], other: tuple[str, float, int], compared: bool
) -> None:
    """Of one machine's devices; on cores of another number they are not what the first one has."""
    views = []
    for view_ in sweep(1.2):
        assert view_.result is not None
        name, cores, count = (one, other)[view_.job["serve"]["threads"] - 1]
        told = {"kind": "cpu", "name": name, "cores": cores, **({"count": count} if count > 1 else {})}
        if " with " in name or " of " in name:  # results of before tell no product
            told["product"] = "CPU"
        device = DeviceInfo.model_validate(told)
        views.append(replace(view_, result=view_.result.model_copy(update={"device": device})))
    blocks = Blocks.among(views)
    assert blocks is not None
    first, second = blocks.configurations
    assert (blocks.ratio("p50_ms", first, second) is not None) == compared


def test_a_steady_drift_is_no_part_of_the_ratio_or_its_interval() -> None:
    """What rises by the same share from run to run cancels exactly, for half of the blocks run backwards."""
    pairs = [Pair(0.1 + (0.04 if block % 2 == 0 else -0.04), block % 2 == 0) for block in range(6)]
    change = change_of(pairs)
    assert change is not None
    assert change.size == pytest.approx(0.1) and change.error == pytest.approx(0.0, abs=1e-9)
    assert change.freedom == 4


def test_three_blocks_say_nothing() -> None:
    """An interval needs four at least."""
    assert change_of([Pair(0.1, True), Pair(0.1, False), Pair(0.1, True)]) is None


def test_the_advice_of_a_disturbed_interleaved_sweep_is_of_its_pairs() -> None:
    """No run is valid, and still the configuration that needs less is named, with its interval and the disturbance."""
    views = sweep(1.2, verdict=DISTURBED)
    advice = advise(views)
    assert advice.best is not None and advice.best.job["serve"]["threads"] == 1
    assert "16 of the 16 runs were disturbed" in advice.text
    assert "Use threads 1: measured in turns, threads 2 has 1.19 times the CPU (95%: 1.1" in advice.text
    assert "8 blocks" in advice.text and "(0" not in advice.text


def at_once(threads: tuple[int, int], rates_rps: tuple[float, float]) -> list[RunView]:
    """Two jobs in turns, of 1,000 requests that are there at once and of 2,000."""
    views = []
    places = [(block, side) for block in range(8) for side in ((0, 1) if block % 2 == 0 else (1, 0))]
    for at, (block, side) in enumerate(places):
        window = {"start_ns": 2 * SECOND, "end_ns": 10 * SECOND, "epoch_offset_ns": at * 20 * SECOND}
        arrivals = {"kind": "offline", "requests": 1000 * (side + 1)}
        views.append(
            view(
                records(3.0 * (1 + side), rate_rps=rates_rps[side], seed=at),
                f"inv.{at:03d}",
                cpu_cores=0.2,
                job={
                    "serve__threads": threads[side],
                    "block": block + 1,
                    "slo": None,
                    "load__arrivals": arrivals,
                },
                extensions={"measured_window": window},
            )
        )
    return named(*views)


def test_of_loads_of_two_lengths_pairs_compare_samples_per_second_alone() -> None:
    """100 and 200 samples/s: the second, whatever its latency; equal rates: none, though the first has half of the
    latency; and of one server a longer load is no choice."""
    advice = advise(at_once((1, 2), (100, 200)))
    assert advice.best is not None and advice.best.job["serve"]["threads"] == 2
    assert "has 0.5 times the throughput" in advice.text
    equal = advise(at_once((1, 2), (200, 200)))
    assert equal.best is None and "by none of throughput" in equal.text
    longer = advise(at_once((1, 1), (100, 200)))
    assert longer.best is None and "they differ in how many samples there are alone" in longer.text


def test_equal_configurations_are_told_apart_by_nothing() -> None:
    """The same thing twice, in turns: nobody is chosen, and the interval is shown."""
    advice = advise(sweep(1.0))
    assert advice.best is None
    assert "The pairs tell threads 1 and threads 2 apart by none of" in advice.text
    assert "more blocks narrow that" in advice.text


def test_too_few_blocks_are_no_equality() -> None:
    """Three blocks of a half more time have no interval: neither is a difference missing in them, nor do pairs find
    the two alike by figures that nobody names."""
    views = sweep(1.5, blocks=3)
    advice = advise(views)
    assert advice.best is None and "by none of" not in advice.text
    assert "can't tell threads 1 and threads 2 apart" in advice.text and "takes 4 at least" in advice.text
    blocks = Blocks.among(views)
    assert blocks is not None
    assert against_first(blocks, views) == ["In turns, threads 2 against threads 1: no figure is compared."]


def test_figures_of_unlike_things_are_none_without_a_difference() -> None:
    """The same twice: as many figures show no difference as have that verdict. Of two tasks none is compared: where
    each of them had a half more time, no difference was said to be shown in all."""
    views = sweep(1.0)
    blocks = Blocks.among(views)
    assert blocks is not None
    one, two = blocks.configurations
    names = [name for name, row in FIGURES.items() if row.better is not None]
    known = [name for name in names if blocks.ratio(name, one, two) is not None]
    ratios = [blocks.ratio(name, one, two, len(known)) for name in known]
    alike = sum(ratio is not None and ratio.verdict == "no difference shown" for ratio in ratios)
    assert alike > 0
    assert against_first(blocks, views) == [
        f"In turns, threads 2 against threads 1: no difference shown in {alike} figures."
    ]
    views = sweep(1.5)
    for view_ in views:
        assert view_.result is not None
        view_.result.model.task = ("a", "b")[view_.job["serve"]["threads"] - 1]
    blocks = Blocks.among(views)
    assert blocks is not None
    assert against_first(blocks, views) == ["In turns, threads 2 against threads 1: no figure is compared."]


def test_a_comparison_of_two_of_their_runs_is_of_all_blocks() -> None:
    """Ratio, interval and verdict are of the pairs; the value is the run's own; the note says so."""
    views = sweep(1.2, verdict=DISTURBED)
    comparison = compare_runs(views[:2], beside=views[2:])
    (row,) = [row for row in comparison.figures if row["figure"] == "p50_ms"]
    (difference,) = row["differences"]
    assert difference["blocks"] == 8 and difference["verdict"] == "worse"
    assert difference["ratio"] == pytest.approx(1.2, rel=0.03)
    assert difference["value"] == views[1].figure("e2e_latency_ms.p50")
    assert any("interleaved sweep" in note for note in comparison.notes)


def test_without_the_other_blocks_two_disturbed_runs_are_not_compared() -> None:
    """Two runs are no pairs: as for any others, a disturbed one has no better or worse."""
    views = sweep(1.2, verdict=DISTURBED)
    (row,) = [row for row in compare_runs(views[:2]).figures if row["figure"] == "p50_ms"]
    assert row["differences"][0]["blocks"] is None and row["differences"][0]["verdict"] is None


def test_a_block_with_an_invalid_run_is_left_out_and_said() -> None:
    """Whose stimulus was not right says nothing; its block is no pair."""
    views = sweep(1.2, verdicts={3: "invalid: stall"})
    blocks = Blocks.among(views)
    assert blocks is not None
    paired = blocks.ratio("p50_ms", blocks.configurations[0], blocks.configurations[1])
    assert paired is not None and paired.blocks == 7
    assert blocks.left_out == [
        "1 of 8 blocks are not whole: with a run that failed or is not valid (1 of threads 1)."
    ]


def test_runs_that_were_not_measured_in_turns_are_no_blocks() -> None:
    """A run that was made again at the end is out of its turn: neither its block nor what it fell into counts."""
    order = [0, 1, 15.5, *range(3, 16)]
    blocks = Blocks.among(sweep(1.2, order=order))
    assert blocks is not None
    assert any("not measured in turns" in text for text in blocks.left_out)
    paired = blocks.ratio("p50_ms", blocks.configurations[0], blocks.configurations[1])
    assert paired is None or paired.blocks < 8


def test_runs_of_an_ordinary_sweep_are_no_blocks() -> None:
    """Nor are those of two sweeps."""
    ordinary = [view(records(), "a.000"), view(records(), "a.001", job={"serve__threads": 2})]
    assert Blocks.among(ordinary) is None
    other = sweep(1.2)
    for at, run in enumerate(other[8:]):
        run.run_id = f"other.{at:03d}"
    assert Blocks.among(other) is None
    assert paired_table(ordinary) == []


def test_the_report_has_each_figure_against_the_first_configuration() -> None:
    """Ratio, interval, blocks with how many were disturbed, and whether that is a difference."""
    (table,) = paired_table(sweep(1.2, verdicts={0: DISTURBED}))
    assert table["title"].startswith("In turns with threads 1")
    rows = {row[1]: row for row in table["rows"]}
    assert rows["p50"][0] == "threads 2" and rows["p50"][4:] == ["8 (1)", "worse"]


@pytest.mark.parametrize("machine", [name for name in simulated.MACHINES if name != "still"])
def test_under_drift_the_intervals_of_pairs_hold_what_they_promise(machine: str) -> None:
    """Simulated: at least 93% of the 95% intervals hold whatever the machine's level does from run to run."""
    held, _, _ = simulated.coverage(machine, 800)["pairs"]
    assert held >= 0.93


def test_under_drift_runs_one_after_the_other_do_not_hold_it() -> None:
    """The same runs without turns: of a warming machine hardly any interval holds, of a random walk fewer than 60%."""
    for machine, most in (
        ("warms up by 6%", 0.1),
        ("random walk, 2% a run", 0.6),
        ("day and night, 8%", 0.6),
    ):
        assert simulated.coverage(machine, 400)["one after the other"][0] < most


def of_both(blocks: Blocks, figure: str) -> PairedRatio | None:
    one, two = blocks.configurations
    return blocks.ratio(figure, one, two)


def test_a_search_that_ends_between_the_same_two_rates_tells_nothing_of_what_lies_between() -> None:
    """15.28: 98 and 103 requests/s in every block, and each is broken 5% above it: one rate may be both servers'."""
    views = sweep(1.0)
    for view_ in views:
        side = view_.job["serve"]["threads"] - 1
        kept, broken = ((98.0, 103.0), (103.0, 108.0))[side]
        view_.summary["max_rate"] = {"samples_per_s": kept, "interval": {"samples_per_s": [kept, broken]}}
    blocks = Blocks.among(views)
    assert blocks is not None
    ratio = of_both(blocks, "max_rate_samples_per_s")
    assert ratio is not None and ratio.verdict == "no difference shown"
    assert ratio.ratio == pytest.approx(103 / 98) and ratio.ci95 == pytest.approx((1.0, 108 / 98))
    for view_ in views:
        if view_.job["serve"]["threads"] == 2:
            view_.summary["max_rate"] = {
                "samples_per_s": 120.0,
                "interval": {"samples_per_s": [120.0, 125.0]},
            }
    ratio = of_both(blocks, "max_rate_samples_per_s")
    assert ratio is not None and ratio.verdict == "better"
    del views[1].summary["max_rate"]["interval"]  # a lower bound of one run
    ratio = of_both(blocks, "max_rate_samples_per_s")
    assert ratio is not None and ratio.verdict is None and ratio.lacking == 1


def test_one_answer_at_a_windows_edge_is_no_difference_however_often_it_repeats() -> None:
    """15.21: the same schedule gives 200.0 and 199.9/s in each block, without any variance: that chooses nobody."""
    views = sweep(1.0)
    for view_ in views:
        view_.summary["throughput_samples_per_s"] = 200.0 if view_.job["serve"]["threads"] == 1 else 199.9
    blocks = Blocks.among(views)
    assert blocks is not None
    ratio = of_both(blocks, "throughput_samples_per_s")
    assert ratio is not None and ratio.verdict == "no difference shown"


def test_a_figure_that_a_run_lacks_is_no_better_in_the_others() -> None:
    """15.12: its p99 is withheld in the blocks in which it failed requests; in the rest it is 20% lower."""
    views = sweep(0.8)
    for view_ in views[1:8:2]:
        view_.summary["e2e_latency_ms"]["p99"] = None
    blocks = Blocks.among(views)
    assert blocks is not None
    ratio = of_both(blocks, "p99_ms")
    assert ratio is not None and ratio.lacking == 4 and ratio.blocks == 4 and ratio.verdict is None
    assert "p99" not in choose(blocks, blocks.configurations)[1][0]


def test_blocks_with_two_kinds_of_energy_give_no_ratio() -> None:
    """1 J and 2 J by RAPL in each of eight blocks are twice as much. In one block the first run's is 0.1 J by the
    estimate, for something else ran beside it: that block has no ratio; where four have both by the estimate, what all
    eight together say is of neither method.
    """
    views = sweep(1.0)

    def given(of_block: Callable[[int, int], tuple[float, str]]) -> PairedRatio:
        for run in views:
            joule, method = of_block(run.job["block"], run.job["serve"]["threads"])
            run.summary["energy"] = {"joule_per_sample": joule, "method": method}
        blocks = Blocks.among(views)
        assert blocks is not None
        ratio = of_both(blocks, "joule_per_sample")
        assert ratio is not None
        return ratio

    alike = given(lambda block, threads: (float(threads), "rapl"))
    assert alike.ratio == pytest.approx(2.0) and (alike.blocks, alike.verdict) == (8, "worse")
    one = given(
        lambda block, threads: (
            (0.1, "tdp_estimate") if (block, threads) == (1, 1) else (float(threads), "rapl")
        )
    )
    assert one.ratio == pytest.approx(2.0) and (one.blocks, one.lacking, one.verdict) == (7, 1, None)
    four = given(
        lambda block, threads: (threads / 10, "tdp_estimate") if block > 4 else (float(threads), "rapl")
    )
    assert (four.blocks, four.lacking, four.verdict) == (8, 0, None)


def test_whose_runs_are_left_out_is_said() -> None:
    """A configuration that failed in three of eight blocks is not the better one by the other five, unseen."""
    failed = "failed: serve, it crashed"
    at = [index for index, view_ in enumerate(sweep(0.8)) if view_.job["serve"]["threads"] == 2][:3]
    views = sweep(0.8, verdicts=dict.fromkeys(at, failed))
    blocks = Blocks.among(views)
    assert blocks is not None
    assert blocks.left_out == [
        "3 of 8 blocks are not whole: with a run that failed or is not valid (3 of threads 2)."
    ]


def test_of_many_equal_configurations_none_is_called_worse_more_often_than_promised() -> None:
    """15.22: the leader of five is seen in the same runs, so that each pair of them counts as a comparison."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(1000):
        ln = rng.normal(0, 0.03, (5, 8))
        leader = int(ln.mean(axis=1).argmin())
        changes = [
            change_of([Pair(ln[other, at] - ln[leader, at], at % 2 == 0) for at in range(8)])
            for other in range(5)
            if other != leader
        ]
        wrong += any(change is not None and change.excludes_none(comparisons_of(1, 5)) for change in changes)
    assert wrong / 1000 <= 0.05
