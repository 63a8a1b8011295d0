"""What a report recommends: only valid runs, only what is beyond noise."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.charts.tradeoffs import latency_throughput, pareto_table
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import named, records, view

BATCH_8 = {"load__batch_size": 8, "load__arrivals": {"kind": "poisson", "rate_rps": 25.0}}
NO_SLO = {"slo": None}


def test_equal_throughput_is_decided_by_cpu_and_says_the_price() -> None:
    """At the same samples/s the run that needs less CPU per sample is recommended, with its latency's price."""
    one = view(records(5.0, seed=2), "r.000", cpu_cores=0.5)
    eight = view(
        records(9.0, rate_rps=100, batch_size=2, seconds=16, seed=3),
        "r.001",
        seconds=16,
        cpu_cores=0.1,
        job={"load__batch_size": 2, "load__arrivals": {"kind": "poisson", "rate_rps": 100.0}},
    )
    advice = advise(named(one, eight))
    assert advice.best is eight
    assert "Both runs keep the SLO (p99 ≤ 20 ms" in advice.text
    assert "0.5 ms of CPU per sample" in advice.text and "5.0 times" in advice.text
    assert "The price is latency: p99" in advice.text


def test_runs_under_objectives_of_their_own_keep_their_own() -> None:
    """A p99 of about 5 ms keeps 20 ms, and 100 ms keep 200: that both keep "p99 at most 20 ms" is not so."""
    views = named(
        view(records(5.0, seed=2), "r.000"),
        view(records(100.0, seed=3), "r.001", job={"slo": {"p99_ms": 200.0}}),
    )
    text = advise(views).text
    assert "Both runs keep the SLO (each its own: p99 ≤ 20 ms" in text and "; p99 ≤ 200 ms" in text


def test_latencies_of_seconds_are_told_in_whole_milliseconds() -> None:
    """Whole answers of language models take seconds: 2,1xx ms, not 2.1e+03."""
    text = advise([view(records(2109.0, noise=0.01), job=NO_SLO)]).text
    assert " 2,1" in text and "e+0" not in text


def test_a_run_that_is_not_valid_is_never_recommended() -> None:
    """The fastest run is left out when it is invalid, and that is said."""
    good, bad = view(records(10.0), "r.000"), view(records(1.0), "r.001", "invalid: the client stalled")
    advice = advise(named(good, bad))
    assert advice.best is good
    assert "1 of 2 runs are left out" in advice.text


@pytest.mark.parametrize("verdict", ["failed: serve, it died", "cancelled: load", "invalid: stall"])
def test_without_a_valid_run_nothing_is_recommended(verdict: str) -> None:
    """No valid run, no advice."""
    advice = advise(named(view(records(5.0), verdict=verdict)))
    assert advice.best is None
    assert advice.text.startswith("No run is valid")


def test_runs_within_noise_are_called_equal() -> None:
    """Two runs of the same thing: no winner is made up."""
    twins = named(
        view(records(5.0, seed=3), "r.000", cpu_cores=0.50),
        view(records(5.0, seed=2), "r.001", cpu_cores=0.52),
    )
    advice = advise(twins)
    assert advice.best is None
    assert "the same within noise" in advice.text and "choose freely between" in advice.text
    assert "the load offers" not in advice.text  # nobody knows that of a closed loop


def test_only_those_that_need_the_least_cpu_are_told_apart_by_latency() -> None:
    """Same throughput; two need as little CPU as each other and one thrice that: the choice is between the two."""
    views = named(
        *(
            view(
                records(5.0, seed=2 + seed),
                f"r.{seed}",
                cpu_cores=cores,
                job={"serve__threads": threads},
            )
            for seed, (cores, threads) in enumerate([(0.20, 1), (0.21, 2), (0.60, 4)])
        )
    )
    advice = advise(views)
    assert "2 of these need the least CPU per sample" in advice.text
    assert "threads 4 needs" in advice.text and "3.0 times as much" in advice.text
    assert "choose freely between threads" in advice.text
    assert "threads 4" not in advice.text.split("choose freely")[1]
    assert "CPU per sample does not differ" not in advice.text


def test_an_slo_that_none_keeps_names_the_nearest_and_the_figure() -> None:
    """No run keeps the SLO: the nearest is named with value and bound, and not recommended."""
    advice = advise(
        named(view(records(40.0), "r.000"), view(records(90.0), "r.001", job={"load__batch_size": 4}))
    )
    assert advice.best is None
    assert "No run keeps the SLO; the nearest is batch_size 1: p99 is" in advice.text
    assert "bound 20 ms" in advice.text


def test_an_slo_that_too_few_requests_can_not_judge_is_said() -> None:
    """25 requests/s for 8 s are too few for a p99: the run is neither kept nor failed."""
    advice = advise(named(view(records(5.0, rate_rps=25), "r.000", job=BATCH_8)))
    assert advice.best is None
    assert "200 good answers, too few for p99" in advice.text


def test_more_throughput_wins_where_the_load_lets_it_show() -> None:
    """Beyond noise, throughput in samples decides, with the factor."""
    slow, fast = view(records(5.0), "r.000"), view(records(5.0, rate_rps=400), "r.001", job={"load__seed": 2})
    advice = advise(named(slow, fast))
    assert advice.best is fast
    assert "2.00 times the throughput" in advice.text


def test_without_an_slo_it_says_so() -> None:
    """The missing SLO is named."""
    advice = advise(named(view(records(5.0), job=NO_SLO)))
    assert advice.best is not None
    assert "No SLO is set" in advice.text


def test_runs_of_different_models_are_not_compared_by_their_answers() -> None:
    """A smaller model needs less CPU; that its answers may be worth less is said, and only then."""
    small, large = (
        view(records(5.0), f"r.{at}", cpu_cores=cores, model={"name": name})
        for at, (name, cores) in enumerate((("small", 0.1), ("large", 0.5)))
    )
    assert "different models (small and large): what an answer is worth" in advise(named(small, large)).text
    assert "different models" not in advise(named(small)).text


def at(
    rate_rps: float, run_id: str, threads: int = 1, latency_ms: float = 5.0, cpu_cores: float = 0.2
) -> RunView:
    """A run under an open loop of that rate, which its server answers."""
    job = {"load__arrivals": {"kind": "poisson", "rate_rps": rate_rps}, "serve__threads": threads}
    table = records(latency_ms, rate_rps=rate_rps, noise=0.05, seed=threads)
    return view(table, run_id, cpu_cores=cpu_cores, job=job)


def test_item_21_an_offered_rate_is_no_configuration() -> None:
    """15.21: one server at 200/s and at 410/s: nothing is to be chosen, least of all twice the rate."""
    advice = advise(named(at(200, "r.000"), at(410, "r.001")))
    assert advice.best is None
    assert "times the throughput" not in advice.text
    assert "they differ in nothing else (poisson, 200 samples/s; poisson, 410 samples/s)" in advice.text


def test_all_loads_are_named() -> None:
    """One server at six rates: each stands in the sentence, and no two of them look like all."""
    rates = (10, 20, 40, 80, 160, 320)
    advice = advise(named(*(at(rate, f"r.{rate:03d}") for rate in rates)))
    assert "; ".join(f"poisson, {rate} samples/s" for rate in rates) in advice.text


@pytest.mark.parametrize(
    "changes", [{"load__network": "wifi"}, {"load__arrivals": {"kind": "closed_loop", "concurrency": 4}},
                {"load__arrivals": {"kind": "gamma", "rate_rps": 200.0, "cv": 3.0}}],
)  # fmt: skip
def test_item_21_nothing_else_of_the_load_is_one_either(changes: dict[str, Any]) -> None:
    """15.21: another network, another concurrency, another arrival process."""
    slow, fast = view(records(5.0), "r.000"), view(records(5.0, rate_rps=400), "r.001", job=changes)
    advice = advise(named(slow, fast))
    assert advice.best is None and "times the throughput" not in advice.text


def test_item_21_configurations_are_compared_under_each_load() -> None:
    """15.21: two servers at two rates; each rate has its answer, and one that holds for both is recommended."""
    runs = named(
        at(200, "r.000", 1, cpu_cores=0.1), at(400, "r.001", 1, cpu_cores=0.2),
        at(200, "r.002", 2, cpu_cores=0.4), at(400, "r.003", 2, cpu_cores=0.8),
    )  # fmt: skip
    advice = advise(runs)
    assert advice.best is runs[0]
    assert advice.text.count("Under poisson, ") == 2 and "times the throughput" not in advice.text
    turned = advise(named(*runs[:3], at(400, "r.003", 2, cpu_cores=0.02)))
    assert turned.best is None and turned.text.count("Use ") == 2


def test_item_20_a_front_is_one_of_a_load() -> None:
    """15.20: a p99 at 50/s beats none at 400/s: each load has its front, in the chart and in the table."""
    runs = named(
        at(50, "r.000", latency_ms=1.0), at(400, "r.001", latency_ms=5.0), at(400, "r.002", 2, latency_ms=9.0)
    )
    (table,) = pareto_table(runs)
    assert table["head"][1] == "load" and {row[1] for row in table["rows"]} == {
        "poisson, 50 samples/s", "poisson, 400 samples/s",
    }  # fmt: skip
    chart = latency_throughput(runs, {})
    assert chart is not None
    names = [trace["name"] for trace in chart["data"] if trace["mode"] == "lines"]
    assert names == [f"not beaten in both under poisson, {rate} samples/s" for rate in (50, 400)]


def test_a_run_is_off_the_front_only_where_another_is_surely_better() -> None:
    """Twins of which one shows a little more of everything both stay; one that needs three times as much does not."""
    runs = named(
        view(records(5.0, seed=3), "r.000", cpu_cores=0.2),
        view(records(5.05, seed=4), "r.001", cpu_cores=0.205, job={"serve__threads": 2}),
        view(records(15.0, seed=5), "r.002", cpu_cores=0.6, job={"serve__threads": 4}),
    )
    (table,) = pareto_table(runs)
    assert [row[0] for row in table["rows"]] == ["threads 1", "threads 2"]
    chart = latency_throughput(runs, {})
    assert chart is not None
    filled = [t["name"] for t in chart["data"] if t.get("marker", {}).get("symbol") == "circle"]
    assert "threads 2" in filled and "threads 4" not in filled


def test_a_highest_rate_that_is_a_lower_bound_is_beaten_by_nobody() -> None:
    """15.20: 900/s kept and 927 broken, beside 300/s of which the client could send no more: none is the better."""

    def searched(run_id: str, rate: float, *, bracketed: bool) -> RunView:
        answer = {
            "rps": rate,
            "samples_per_s": rate,
            "objective": "p99_ms <= 20",
            "probes": [],
            "broken_rps": None,
        }
        ends = [rate, rate * 1.03] if bracketed else None
        answer |= {"interval": {"rps": ends, "samples_per_s": ends}}
        job = {"load__arrivals": {"kind": "max_rate"}}
        summary = view(records(5.0)).summary | {"max_rate": answer}
        return view(records(5.0), run_id, summary=summary, job=job)

    advice = advise(named(searched("r.000", 900, bracketed=True), searched("r.001", 300, bracketed=False)))
    assert advice.best is None and "nobody knows which is higher" in advice.text
    decided = named(searched("r.000", 900, bracketed=False), searched("r.001", 300, bracketed=True))
    assert advise(decided).best is decided[0]


def offline(run_id: str, rate_rps: float, requests: int, batch_size: int, **changes: Any) -> RunView:
    """All requests at once, of which so many are answered per second."""
    job = {
        "slo": None, "load__batch_size": batch_size, "load__arrivals": {"kind": "offline", "requests": requests},
    }  # fmt: skip
    return view(records(5.0, rate_rps=rate_rps, batch_size=batch_size), run_id, job=job, **changes)


def test_batch_sizes_are_compared_where_all_requests_are_there_at_once() -> None:
    """1,000 requests of one sample at 200 samples/s, and of four at 400: as many requests are another number of
    samples, which changes no throughput."""
    one, four = offline("r.000", 200, 1000, 1), offline("r.001", 100, 1000, 4)
    advice = advise(named(one, four))
    assert advice.best is four and "2.00 times the throughput" in advice.text


def test_a_longer_load_is_no_configuration() -> None:
    """1,000 and 4,000 requests to one server: whichever answers more per second is no better choice."""
    advice = advise(named(offline("r.000", 200, 1000, 1), offline("r.001", 300, 4000, 1)))
    assert advice.best is None
    assert "alone (offline, 1,000 samples; offline, 4,000 samples): there is none to choose" in advice.text


def test_of_loads_of_two_lengths_no_latency_is_compared() -> None:
    """200 samples/s both, of 1,000 samples and of 2,000: the last one of these waits twice as long."""
    one, two = offline("r.000", 200, 1000, 1, cpu_cores=0.5), offline("r.001", 100, 1000, 2, cpu_cores=0.1)
    advice = advise(named(one, two))
    assert advice.best is None and "the same within noise" in advice.text
    assert "nothing else is compared" in advice.text and "p99" not in advice.text and "Use" not in advice.text


def part(number: int, latency_ms: float, **changes: Any) -> RunView:
    """One of two, each of whose answers takes so long: its p99 is that, at 200 samples/s."""
    job = {"evaluate__part": f"{number}/2"}
    return view(records(latency_ms, noise=0), f"r.00{number}", job=job, **changes)


def test_parts_of_one_evaluation_are_no_alternatives() -> None:
    """They are one run, by what it is called, with the figures of the slower one, 6 ms, whichever stands first; one
    part that misses the objective makes it miss it, and the part is told that misses it most."""
    for latencies_ms, worst in (((5.0, 6.0), 1), ((6.0, 5.0), 0)):
        both = named(part(1, latencies_ms[0]), part(2, latencies_ms[1]))
        advice = advise(both)
        assert advice.best is both[worst]
        assert "Use quickstart, 2 parts: 200 samples/s, p99 6 ms." in advice.text
        assert "no alternatives" in advice.text
    for latencies_ms in ((5.0, 90.0), (40.0, 90.0), (90.0, 40.0)):
        missed = advise(named(part(1, latencies_ms[0]), part(2, latencies_ms[1])))
        assert missed.best is None
        assert "the nearest is quickstart, 2 parts: p99 is 90 ms, bound 20 ms" in missed.text


def test_an_evaluation_is_chosen_by_its_worst_part() -> None:
    """Of two threads' parts the worst takes 9 ms, of one thread's 8 ms, at as many samples/s and as much CPU: one
    thread, though a part of two threads' is the fastest of all."""
    runs = [part(1, 2.0), part(2, 9.0), part(1, 7.0), part(2, 8.0)]
    for run, threads in zip(runs, (2, 2, 1, 1), strict=True):
        run.job["serve"]["threads"] = threads
        run.run_id = f"{run.run_id}-{threads}"
    advice = advise(named(*runs))
    assert advice.best is runs[3]
    assert (
        "Use threads 1, 2 parts: its p99 is 8 ms (8 to 8), that of threads 2, 2 parts 9 ms (9 to 9)"
        in advice.text
    )


def test_a_part_that_does_not_count_makes_none_of_it_count() -> None:
    """However good the figures of the other one are."""
    advice = advise(named(part(1, 9.0), part(2, 5.0, verdict="invalid: the client stalled")))
    assert advice.best is None and advice.text.startswith("No run is valid")
