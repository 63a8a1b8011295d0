"""A comparison claims a difference where its interval says so, and hardly ever between two runs of the same thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.report.differences import NONE_SHOWN, Comparison, compare_runs
from inferbench_tasks.analysis.report.replay import agreement
from inferbench_tasks.analysis.report.terminal import views_of
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import Energy, LoadInfo, ModelInfo, ResultDocument
from inferbench_tasks.provider.ui.render import page
from tests.unit.perfdb.builders import result


def run(name: str, rng: np.random.Generator, drift: float, times: float = 1.0) -> ResultDocument:
    """A run of one configuration with sixteen figures, each of which drifts by itself from run to run."""

    def around(value: float) -> float:
        return value * float(np.exp(rng.normal(0, drift)))

    latency: dict[str, Any] = {
        name: around(value * times)
        for name, value in {
            "mean": 5.0,
            "p50": 4.0,
            "p90": 8.0,
            "p95": 9.0,
            "p99": 15.0,
            "p999": 20.0,
        }.items()
    }
    latency["ci95"] = {name: [value * 0.97, value * 1.03] for name, value in latency.items()}
    rate = around(100)
    right = int(rng.binomial(256, 0.9))  # no machine's drift makes it another
    summary = {
        "ok": 5000, "e2e_latency_ms": latency, "throughput_rps": rate, "throughput_samples_per_s": around(100),
        "goodput_rps": around(99), "accuracy_ratio": right / 256, "cpu_ms_per_sample": around(3),
        "cost_usd_per_1k": around(0.1), "cost_usd_per_1k_samples": around(0.1), "co2_g_per_1k": around(0.4),
        "resources": {"server": {"cpu_cores": {"mean": around(0.5)}, "rss_bytes": {"max": around(2e8)}}},
    }  # fmt: skip
    return result(name, summary=summary, extensions={"requests": {"samples": 256}})


def comparison(seed: int, drift: float, times: float = 1.0) -> Comparison:
    """Two runs, the second with so many times the latency; nothing is known of earlier ones."""
    rng = np.random.default_rng(seed)
    return compare_runs(views_of([run("a", rng, drift), run("b", rng, drift, times)]))


def verdicts(drawn: Comparison) -> list[str | None]:
    """What the comparison says of each figure."""
    return [change["verdict"] for row in drawn.figures for change in row["differences"]]


@pytest.mark.parametrize("drift", [0.03, 0.08])
def test_item_22_identical_configurations_are_called_different_in_well_under_5_percent(drift: float) -> None:
    """15.22: of 200 comparisons of a configuration with itself over sixteen figures, hardly any claims anything."""
    claims = [
        any(v not in (NONE_SHOWN, None) for v in verdicts(comparison(seed, drift))) for seed in range(200)
    ]
    assert len(verdicts(comparison(0, drift))) >= 16
    assert np.mean(claims) < 0.035


@pytest.mark.parametrize("times", [1.0, 1.2, 1.5, 3.0])
def test_item_22_a_verdict_follows_the_interval_that_is_shown(times: float) -> None:
    """15.22: never "worse" beside an interval that includes 1, nor "no difference" beside one that does not."""
    for seed in range(20):
        for row in comparison(seed, 0.05, times).figures:
            for change in row["differences"]:
                low, high = change["ci95"]
                assert (change["verdict"] == NONE_SHOWN) == (low <= 1 <= high), row["figure"]


def test_a_large_difference_is_still_shown() -> None:
    """Twice the latency of single runs: worse in nearly every comparison of sixteen figures."""
    claims = []
    for seed in range(50):
        (p50,) = [row for row in comparison(seed, 0.05, 2.0).figures if row["figure"] == "p50_ms"]
        claims.append(p50["differences"][0]["verdict"] == "worse")
    assert np.mean(claims) > 0.95


def test_item_22_a_replay_of_the_same_agrees() -> None:
    """15.22: a replay looks at several figures too, and two runs of the same thing agree in all of them."""
    rng = np.random.default_rng(1)
    replays = [agreement(run("a", rng, 0.05), run("b", rng, 0.05)) for _ in range(200)]
    assert np.mean([not all(row["agrees"] for row in rows) for rows in replays]) < 0.035


def _twice_as_slow(**changes: Any) -> Comparison:
    """A run and another with twice its latency, which differs in ``changes`` too."""
    rng = np.random.default_rng(1)
    first, other = run("a", rng, 0.0), run("b", rng, 0.0, 2.0)
    return compare_runs(views_of([first, other.model_copy(update=changes)]))


def _verdict(drawn: Comparison, figure: str) -> str | None:
    (row,) = [row for row in drawn.figures if row["figure"] == figure]
    return row["differences"][0]["verdict"]  # type: ignore[no-any-return]


def test_a_run_that_does_not_count_is_never_better_or_worse() -> None:
    """Its figures are shown, and what a disturbed machine made of them is no verdict on the configuration."""
    assert _verdict(_twice_as_slow(), "p50_ms") == "worse"
    for text in ("disturbed: the hypervisor took 20%", "invalid: the client stalled"):
        drawn = _twice_as_slow(verdict=Verdict.read(text))
        assert set(verdicts(drawn)) == {None}
        assert any("does not count" in note for note in drawn.notes)


def test_a_warning_of_a_valid_run_is_not_called_a_disturbance() -> None:
    """0.6 ms of the 1.0 ms that would be too much were noted; 2.0 of 1.0 ms did disturb the run."""
    finding = {
        "kind": "foreign_wait",
        "value": 0.6,
        "bound": 0.5,
        "quarantine": False,
        "text": "waited 0.6 ms",
    }

    def notes(**changes: Any) -> list[str]:
        first, other = run("a", np.random.default_rng(1), 0.0), run("b", np.random.default_rng(2), 0.0)
        ledger = {"findings": [{**finding, **changes}]}
        summary = type(other.summary).model_validate(other.summary.model_dump() | {"interference": ledger})
        drawn = compare_runs(views_of([first, other.model_copy(update={"summary": summary})]))
        return [note for note in drawn.notes if "waited" in note]

    (light,) = notes()
    assert "too little to call the run disturbed" in light and "was disturbed" not in light
    (grave,) = notes(quarantine=True, text="waited 2.0 ms")
    assert grave == "b was disturbed, which may be all of a difference: waited 2.0 ms."


def test_a_verdict_is_nothing_that_was_asked() -> None:
    """It stands with each run, and not among what was asked differently."""
    drawn = _twice_as_slow(verdict=Verdict.read("invalid: the client stalled"))
    assert "verdict" not in [row["field"] for row in drawn.settings]
    assert drawn.verdicts == {"a": "valid", "b": "invalid: the client stalled"}


def test_a_figure_that_one_run_lacks_says_why() -> None:
    """As its certificate does, in the row and in the sentence."""
    rng = np.random.default_rng(1)
    first, other = run("a", rng, 0.0), run("b", rng, 0.0)
    latency = other.summary.e2e_latency_ms.model_dump() | {"p99": None, "withheld": {"p99": "not steady: x"}}
    summary = type(other.summary).model_validate(other.summary.model_dump() | {"e2e_latency_ms": latency})
    drawn = compare_runs(views_of([first, other.model_copy(update={"summary": summary})]))
    (row,) = [row for row in drawn.figures if row["figure"] == "p99_ms"]
    assert row["differences"][0]["reason"] == "this run has no p99 (withheld: not steady: x)"
    assert "none of it; this run has no p99 (withheld: not steady: x)" in drawn.words[0]


def test_the_page_shows_figures_as_other_pages_do_and_no_sureness_beside_no_difference() -> None:
    """Memory in MiB with its unit: 2e8 bytes are 190.7 MiB; and "(over 99%)" stands behind a verdict alone."""
    rng = np.random.default_rng(1)
    comparison = compare_runs(views_of([run("a", rng, 0.0), run("b", rng, 0.0, 1.3)]))
    shown: dict[str, Any] = {
        "slots": [],
        "problem": None,
        "comparison": comparison,
        "asked": "",
        "figures": FIGURES,
    }
    body = bytes(page("compare.html", here="compare", **shown).body).decode()
    assert 'rss_bytes, MiB</th><td class="n">191</td>' in body
    assert ">p50_ms</th>" in body and "e+0" not in body
    assert any(
        d["verdict"] == NONE_SHOWN and d["probability"] for r in comparison.figures for d in r["differences"]
    )
    assert f"{NONE_SHOWN} (" not in body


def test_runs_under_different_loads_are_judged_by_what_no_load_changes() -> None:
    """Twice the latency at a tenth of the rate says nothing; the accuracy does, and the note says why."""
    load = LoadInfo.model_validate({"arrivals": {"kind": "poisson", "rate_rps": 8.0}, "batch_size": 4})
    drawn = _twice_as_slow(load=load)
    assert _verdict(drawn, "p50_ms") is None
    assert _verdict(drawn, "throughput_rps") is None
    assert _verdict(drawn, "accuracy_ratio") == NONE_SHOWN
    assert any(
        "another load (poisson, 32 samples/s, not poisson, 320 samples/s)" in note for note in drawn.notes
    )


def test_a_request_of_another_size_is_another_thing() -> None:
    """Half as many requests of twice as many samples are no worse throughput; figures of a sample can be compared."""
    load = LoadInfo.model_validate({"arrivals": {"kind": "poisson", "rate_rps": 40.0}, "batch_size": 8})
    drawn = _twice_as_slow(load=load)
    assert _verdict(drawn, "throughput_rps") is _verdict(drawn, "cost_usd_per_1k") is None
    assert _verdict(drawn, "cost_usd_per_1k_samples") == NONE_SHOWN


@pytest.mark.parametrize(
    ("arrivals", "verdict"),
    [({"kind": "closed_loop", "concurrency": 8}, None), ({"kind": "poisson", "rate_rps": 80.0}, "better")],
    ids=["closed loop", "open loop"],
)
def test_fewer_cores_for_fewer_answers_are_no_win(arrivals: dict[str, Any], verdict: str | None) -> None:
    """A closed loop's second server uses 0.3 of the cores because it answers a quarter as much: the CPU of a sample is
    1.2 times the first's. At one rate of arrivals, which both keep up with, fewer cores are fewer for the same.
    """

    def of(name: str, cores: float, rate: float) -> ResultDocument:
        server = {"server": {"cpu_cores": {"mean": cores}}}
        summary = {"resources": server, "throughput_samples_per_s": rate, "ok": 5000}
        return result(name, load={"arrivals": arrivals}, summary=summary)

    drawn = compare_runs(views_of([of("a", 1.0, 400.0), of("b", 0.3, 100.0)]))
    assert _verdict(drawn, "cpu_cores") == verdict
    assert ("better in CPU" in drawn.words[0]) is (verdict == "better")
    assert any("CPU of the server. It is shown and not compared" in note for note in drawn.notes) is (
        verdict is None
    )


def test_answers_to_different_questions_are_not_compared() -> None:
    """A faster model of another task, or on another data set, is no better one."""
    rng = np.random.default_rng(1)
    models = [{"name": "x", "task": "classification", "dataset": name} for name in ("digits", "imagenet")]
    runs = [run(name, rng, 0.0).model_copy(update={"model": ModelInfo.model_validate(model)})
            for name, model in zip("ab", models, strict=True)]  # fmt: skip
    drawn = compare_runs(views_of(runs))
    assert set(verdicts(drawn)) == {None}
    assert any("another dataset (imagenet, not digits)" in note for note in drawn.notes)


def test_goodput_under_another_bound_is_not_compared() -> None:
    """Twice as many answers are within 200 ms as within 20 ms: no server is better for that."""

    def runs(limit_ms: float) -> list[ResultDocument]:
        summary = {"throughput_rps": 100.0, "ok": 5000}
        made = [result(name, summary={**summary, "goodput_rps": rps, "goodput_limit_ms": limit})
                for name, rps, limit in (("a", 40.0, 20.0), ("b", 90.0, limit_ms))]  # fmt: skip
        return made

    assert _verdict(compare_runs(views_of(runs(20.0))), "goodput_rps") == "better"
    assert _verdict(compare_runs(views_of(runs(200.0))), "goodput_rps") is None


def test_energies_of_different_methods_are_not_compared() -> None:
    """What a package's counter drew, idle power included, is not what a model says of the server's share."""
    rng = np.random.default_rng(1)
    runs = []
    for name, method in (("a", "rapl"), ("b", "tdp_estimate")):
        one = run(name, rng, 0.0)
        energy = Energy(joule_per_request=0.2 if name == "a" else 0.02, method=method)
        runs.append(one.model_copy(update={"summary": one.summary.model_copy(update={"energy": energy})}))
    drawn = compare_runs(views_of(runs))
    assert _verdict(drawn, "joule_per_request") is None
    assert any("different methods" in note for note in drawn.notes)


def test_latencies_at_rates_that_each_run_searched_for_are_not_compared() -> None:
    """A p99 three times as high at three times the rate is no worse; what does not depend on the rate is compared."""
    rng = np.random.default_rng(1)
    runs = [run("a", rng, 0.001), run("b", rng, 0.001, 3.0)]
    for document, rate in zip(runs, (300.0, 900.0), strict=True):
        document.load.arrivals = {"kind": "max_rate", "objective": "p99_ms <= 20"}
        document.summary.throughput_samples_per_s = rate
    compared = compare_runs(views_of(runs))
    judged = {row["figure"]: row["differences"][0]["verdict"] for row in compared.figures}
    assert judged["p99_ms"] is None and judged["cpu_cores"] is None
    assert judged["throughput_samples_per_s"] == "better"
    assert any("at a rate of its own" in " ".join(note.split()) for note in compared.notes)


@pytest.mark.parametrize(("ends", "verdict"), [([900.0, 930.0], "better"), (None, None)])
def test_a_highest_rate_that_is_a_lower_bound_is_compared_with_nothing(
    ends: list[float] | None, verdict: str | None
) -> None:
    """15.20: three times 300/s, where a rate that breaks was met; without one there is no ratio and no verdict."""
    rng = np.random.default_rng(1)
    runs = []
    for name, rate, interval in (("a", 300.0, [300.0, 310.0]), ("b", 900.0, ends)):
        one = run(name, rng, 0.001)
        found = {"rps": rate, "samples_per_s": rate, "interval": {"rps": interval, "samples_per_s": interval}}
        summary = type(one.summary).model_validate(one.summary.model_dump() | {"max_rate": found})
        one = one.model_copy(update={"summary": summary})
        one.load.arrivals = {"kind": "max_rate", "objective": "p99_ms <= 20"}
        runs.append(one)
    judged = {row["figure"]: row["differences"][0] for row in compare_runs(views_of(runs)).figures}
    assert judged["max_rate_rps"]["verdict"] == verdict
    assert (judged["max_rate_rps"]["ratio"] is None) is (verdict is None)
