"""The recommender: bounds are kept, the order's certainty is told, missing data are named."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from tests.unit.perfdb.builders import result

P99 = Bound("p99_ms", True, 100.0)


def run(batch: int, throughput: float, p99: float | None, index: int = 0) -> dict[str, Any]:
    """One valid run of a configuration with that batch size."""
    return result(
        f"run-{batch}-{index}",
        submission={"name": "x", "digest": f"{batch:064d}"},
        load={"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": batch, "network": "lan"},
        summary={
            "e2e_latency_ms": {"p99": p99},
            "throughput_samples_per_s": throughput,
            "throughput_rps": throughput,
        },
    ).model_dump()


def priced(batch: int, rate_rps: float) -> dict[str, Any]:
    """A run of so many requests/s of that size, at 1 USD/h."""
    document = run(batch, batch * rate_rps, 20)
    cost = 1 / 3600 / rate_rps * 1000
    figures = {"cost_usd_per_1k": cost, "cost_usd_per_1k_samples": cost / batch}
    document["summary"] |= {"throughput_rps": rate_rps, **figures}
    return document


SWEEP = [priced(1, 1000.0), priced(4, 600.0), priced(8, 500.0)]


@pytest.mark.parametrize("objective", ["cost_usd_per_1k", "cost", "throughput_rps", "throughput"])
def test_a_figure_of_a_request_over_several_batch_sizes_is_warned_of(objective: str) -> None:
    """By a request's cost or rate batch 1 wins; the answer says which sizes there are and what to use."""
    recommendation = choose(SWEEP, objective, [])
    assert "batch 1" in recommendation.top[0]["configuration"]
    (note,) = [note for note in recommendation.notes if "is of a request" in note]
    better = "throughput_samples_per_s" if "throughput" in objective else "cost_usd_per_1k_samples"
    assert "1, 4, 8 samples" in note and f"Use {better} " in note


def test_by_a_sample_the_batch_that_does_most_for_the_money_wins() -> None:
    """Batch 8 at 500 requests/s costs a quarter of batch 1 at 1,000, and nothing needs to be said."""
    recommendation = choose(SWEEP, "cost_usd_per_1k_samples", [])
    assert ["batch 8" in row["configuration"] for row in recommendation.top] == [True, False, False]
    first, last = (recommendation.top[place]["cost_usd_per_1k_samples"] for place in (0, 2))
    assert first == pytest.approx(last / 4)
    assert not any("is of a request" in note for note in recommendation.notes)


def test_a_figure_of_a_request_is_fine_where_all_requests_are_equal() -> None:
    """Of one batch size only, the order by request and by sample is the same: no warning."""
    recommendation = choose([priced(8, 500.0), priced(8, 400.0)], "cost_usd_per_1k", [])
    assert not any("is of a request" in note for note in recommendation.notes)


def test_a_result_from_before_costs_of_a_sample_were_stored_is_not_judged_as_free() -> None:
    """Missing, not 0: it is left out and named."""
    old = priced(16, 900.0)
    del old["summary"]["cost_usd_per_1k_samples"]
    recommendation = choose([*SWEEP, old], "cost_usd_per_1k_samples", [])
    assert (recommendation.candidates, recommendation.fitting) == (4, 3)
    assert any("no cost_usd_per_1k_samples was measured" in note for note in recommendation.notes)


def test_the_best_three_that_keep_the_bound_in_order() -> None:
    """The fastest breaks the bound and is out; three of the rest remain, best first."""
    recommendation = choose(
        [run(1, 50, 20), run(2, 90, 40), run(4, 150, 80), run(8, 200, 130), run(16, 30, 90)],
        "throughput_samples_per_s",
        [P99],
    )
    assert [row["throughput_samples_per_s"] for row in recommendation.top] == [150, 90, 50]
    assert (recommendation.candidates, recommendation.fitting) == (5, 4)
    assert "batch 4" in recommendation.top[0]["configuration"]
    assert recommendation.top[0]["p99_ms"] == 80


def test_clear_differences_are_sure_and_close_ones_are_not() -> None:
    """150 against 90 is nearly certain; 100 against 95 is not, and how many runs would settle it is said."""
    clear = choose([run(1, 150, 20), run(2, 90, 20)], "throughput_samples_per_s", [])
    assert clear.top[0]["beats_next_probability"] > 0.999
    assert clear.reruns == ()
    close = choose([run(1, 100, 20), run(2, 95, 20)], "throughput_samples_per_s", [])
    assert 0.6 < close.top[0]["beats_next_probability"] < 0.9
    assert any("more run(s) of both would settle it" in note for note in close.notes)
    assert len(close.reruns) == 2


def test_what_no_sensible_number_of_runs_settles_is_left_to_choose() -> None:
    """100 against 99.9: a coin's toss, and it stays one."""
    recommendation = choose([run(1, 100, 20), run(2, 99.9, 20)], "throughput_samples_per_s", [])
    assert 0.5 < recommendation.top[0]["beats_next_probability"] < 0.55
    assert any("choose freely" in note for note in recommendation.notes)
    assert recommendation.reruns == ()


def test_repeated_runs_bring_their_own_spread() -> None:
    """Three runs each, wide apart within a configuration: the same means are less sure than with tight ones."""
    tight = [run(b, v, 20, i) for b, vs in ((1, (100, 101, 99)), (2, (95, 96, 94))) for i, v in enumerate(vs)]
    wide = [run(b, v, 20, i) for b, vs in ((1, (130, 100, 70)), (2, (125, 95, 65))) for i, v in enumerate(vs)]
    sure, unsure = (choose(runs, "throughput_samples_per_s", []).top[0] for runs in (tight, wide))
    assert sure["runs"] == unsure["runs"] == 3
    assert sure["beats_next_probability"] > 0.95 > 0.7 > unsure["beats_next_probability"]


def test_others_spread_counts_for_what_ran_once() -> None:
    """Two that ran once are less sure where a third one's repeats lie far apart."""
    pair = [run(1, 120, 20), run(2, 100, 20)]
    noisy = [run(4, v, 20, i) for i, v in enumerate((30.0, 60.0, 45.0, 20.0, 70.0))]
    alone, beside = (choose(runs, "throughput_samples_per_s", []).top[0] for runs in (pair, pair + noisy))
    assert alone["beats_next_probability"] > 0.9 > beside["beats_next_probability"]


def test_the_probability_is_right_as_often_as_it_says() -> None:
    """Of 700 seeded pairs of true means, those said to win with 70 to 90% win in about as many cases."""
    rng, probabilities, won = random.Random(4), [], []
    for _ in range(700):
        true = {1: 100 * math.exp(rng.gauss(0, 0.07)), 2: 100 * math.exp(rng.gauss(0, 0.07))}
        runs = [run(b, m * math.exp(rng.gauss(0, 0.05)), 20, i) for b, m in true.items() for i in range(2)]
        top = choose(runs, "throughput_samples_per_s", []).top[0]
        if 0.7 <= top["beats_next_probability"] <= 0.9:
            probabilities.append(top["beats_next_probability"])
            batch = int(top["configuration"].split("batch ")[1].split(",")[0])
            won.append(true[batch] == max(true.values()))
    assert len(probabilities) > 100
    assert sum(won) / len(won) == pytest.approx(sum(probabilities) / len(probabilities), abs=0.08)


def test_a_bound_that_is_kept_by_a_hair_is_said_to_be_unsure() -> None:
    """p99 of 99 against a bound of 100 is kept with little certainty, 50 with much; more runs are asked for."""
    near, far = (choose([run(1, 100, p99)], "throughput_samples_per_s", [P99]) for p99 in (99.0, 50.0))
    assert near.top[0]["keeps_slo_probability"] < 0.7 < 0.99 < far.top[0]["keeps_slo_probability"]
    assert any("keeps its bounds with probability" in note for note in near.notes) and near.reruns
    assert far.reruns == ()


def test_one_run_beyond_the_bound_takes_a_configuration_out() -> None:
    """The mean of three runs is within the bound, one of them is not: it does not keep the SLO."""
    recommendation = choose(
        [run(1, 100, p99, i) for i, p99 in enumerate((50, 60, 110))], "throughput_samples_per_s", [P99]
    )
    assert recommendation.top == []
    assert "None of 1 configuration(s) keeps p99_ms ≤ 100." in recommendation.notes


def test_a_missing_percentile_is_named_and_not_taken_for_kept() -> None:
    """Too few requests for a p99: the configuration is not recommended, and what to do is said."""
    document = run(1, 100, None)
    document["summary"]["e2e_latency_ms"]["count"] = 300
    recommendation = choose([document], "throughput_samples_per_s", [P99])
    assert recommendation.top == []
    assert "no p99_ms (300 good answers are too few: it takes 662)" in recommendation.notes[0]
    assert "A longer run would tell" in recommendation.notes[0]


def test_a_withheld_percentile_is_explained_by_the_certificate_and_no_longer_run_is_proposed() -> None:
    """17,700 requests of a rate that drifts: there were enough of them, and more would drift as well."""
    document = run(1, 100, None)
    reason = "not steady: the throughput drifts by -22% over the load, about a level of 5065 requests/s"
    document["summary"]["e2e_latency_ms"] |= {"count": 17_700, "withheld": {"p99": reason}}
    (note,) = choose([document], "throughput_samples_per_s", [P99]).notes[:1]
    assert f"no p99_ms (withheld: {reason})" in note
    assert "too few" not in note and "onger run" not in note


def test_a_rate_that_moved_is_told_and_judged_with_an_error_as_large() -> None:
    """1,000/s that drifts by -22% against 900/s: apart by ln(1000/900) = 0.105 with 5% each (P = 0.91), and with
    hypot(5%, 22%) = 0.2256 beside 5% an error of 0.2311 and z = 0.456, which decides nothing.
    """
    fast, slow = run(1, 1000, 20), run(2, 900, 20)
    slow["load"]["batch_size"] = fast["load"]["batch_size"]
    steady = choose([fast, slow], "throughput_samples_per_s", [])
    assert steady.top[0]["beats_next_probability"] > 0.9
    assert not any("rate that moved" in note for note in steady.notes)
    words = "not steady: the throughput drifts by -22% over the load"
    fast["certificate"] = {"figures": {"steady_state": words, "throughput_change_ratio": -0.22}}
    moved = choose([fast, slow], "throughput_samples_per_s", [])
    assert moved.top[0]["beats_next_probability"] == pytest.approx(0.666, abs=0.02)
    (note,) = [note for note in moved.notes if "rate that moved" in note]
    assert words in note and "an error of 22%" in note


def test_lower_is_better_for_latency() -> None:
    """The order follows the figure."""
    assert [r["p99_ms"] for r in choose([run(1, 9, 30), run(2, 9, 10)], "p99_ms", []).top] == [10, 30]


def test_without_results_it_says_what_to_do() -> None:
    """No data, no recommendation."""
    assert "run a submission" in choose([], "throughput_samples_per_s", []).notes[0]


@pytest.mark.parametrize("name", ["nonsense", "model"])
def test_an_unknown_figure_is_refused_with_those_that_there_are(name: str) -> None:
    """The message lists the figures."""
    with pytest.raises(InputError, match="allowed: mean_ms, "):
        FIGURES.ranking(name)


def test_configurations_that_read_alike_are_told_apart() -> None:
    """Two that differ in a setting which is no number are named by it, not by what both have or what only labels."""
    jobs = [
        {"name": f"job {seed}", "requests": {"kind": kind, "seed": 7}, "load": {"batch_size": 4}}
        for seed, kind in enumerate(("random", "dataset"))
    ]
    runs = [{**run(4, 100 + 9 * i, 20, i), "provenance": {"job": job}} for i, job in enumerate(jobs)]
    for one, digest in zip(runs, "ab", strict=True):
        one["submission"] = {"name": "x", "digest": digest * 64}
    first, second = (row["configuration"] for row in choose(runs, "throughput_samples_per_s", []).top)
    assert first.endswith("network lan, requests.kind dataset")
    assert second.endswith("network lan, requests.kind random")


def test_a_recommendation_is_not_called_by_the_port_that_a_start_drew() -> None:
    """Of Triton's numbers those that were asked for name it, in a result of an earlier version, too."""
    one = run(4, 100.0, 20.0)
    one["backend"]["settings"] = {"instances": 2, "metrics_port": 40123}
    (row,) = choose([one], "throughput_samples_per_s", []).top
    assert "instances 2" in row["configuration"] and "40123" not in row["configuration"]


def test_a_pinned_run_is_no_repeat_of_one_on_the_whole_machine() -> None:
    """The same job on 3 and on 16 cores: two configurations, told apart by their cores; older results still count."""
    runs = [run(1, rate, 20, index) for index, rate in enumerate((30.0, 31.0, 160.0, 100.0))]
    for document, cores in zip(runs, (3.0, 3.0, 16.0, None), strict=True):
        document["device"]["cores"] = cores
    del runs[3]["device"]["cores"]  # as results were before they told it
    recommendation = choose(runs, "throughput_samples_per_s", [])
    assert [(row["throughput_samples_per_s"], row["runs"]) for row in recommendation.top] == [
        (160, 1),
        (100, 1),
        (30.5, 2),
    ]
    assert (
        "cores 16" in recommendation.top[0]["configuration"]
        and "cores 3" in recommendation.top[2]["configuration"]
    )


def test_two_versions_of_a_server_are_said_beside_the_choice_between_them() -> None:
    """What lies between them may be the version's; of one version, or one that is not known, nothing is said."""
    for versions, said in ((("1", "2"), True), (("1", "1"), False), ((None, "2"), False)):
        documents = [priced(1, 1000.0), priced(4, 600.0)]
        for document, version in zip(documents, versions, strict=True):
            document["backend"] |= {"kind": "onnxruntime", "version": version}
        notes = [
            note for note in choose(documents, "throughput_samples_per_s", []).notes if "versions" in note
        ]
        assert bool(notes) is said
        if said:
            assert notes[0].startswith("onnxruntime ran in 2 versions, and what lies between these may be")
            assert notes[0].endswith(".")


def test_energies_of_two_methods_are_not_ranked_among_each_other() -> None:
    """An estimate of 1 J is no better server than counters' 2 and 3 J: the three results by RAPL are chosen among, and
    how many others there are is said. Of one method all are.
    """
    for methods, best in ((("tdp_estimate", "rapl", "rapl"), [2.0, 3.0]), (("rapl",) * 3, [1.0, 2.0, 3.0])):
        documents = [run(1, 100.0, 20), run(4, 100.0, 20), run(8, 100.0, 20)]
        for document, joule, method in zip(documents, (1.0, 2.0, 3.0), methods, strict=True):
            document["summary"]["energy"] = {
                "joule_per_sample": joule, "method": method, "uncertainty_ratio": 0.03,
            }  # fmt: skip
        answer = choose(documents, "joule_per_sample", [])
        assert [row["joule_per_sample"] for row in answer.top] == best and answer.candidates == len(best)
        assert [note for note in answer.notes if "in another way" in note] == [
            "1 result(s) whose energy was got in another way (energy by tdp_estimate) than most (energy by rapl) are "
            "left out: they measure different things, and by joule_per_sample none of two such is better."
        ] * (len(best) == 2)


def test_every_run_and_every_bound_tells_how_energies_were_got() -> None:
    """Two runs of one configuration by two methods, of which the first is the other configuration's too: that one
    counts alone. A bound on an energy beside another objective means something else for each method.
    """
    documents = [run(1, 100.0, 20), run(1, 101.0, 20, index=1), run(4, 90.0, 20)]
    for document, method in zip(documents, ("rapl", "tdp_estimate", "rapl"), strict=True):
        document["summary"]["energy"] = {"joule_per_sample": 1.0, "method": method, "uncertainty_ratio": 0.03}
    assert {row["runs"] for row in choose(documents, "joule_per_sample", []).top} == {1}
    ways = "Energy was got in ways that differ here (energy by rapl; energy by tdp_estimate)"
    bounded = choose(documents, "throughput_samples_per_s", [Bound("joule_per_sample", True, 2.0)])
    (note,) = [note for note in bounded.notes if ways in note]
    assert "a bound on joule_per_sample means something else for each" in note
    alike = choose(documents[::2], "throughput_samples_per_s", [Bound("joule_per_sample", True, 2.0)])
    assert not any(ways in note for note in alike.notes)
