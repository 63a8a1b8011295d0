"""What a report shows of streams of tokens, against what a hand draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.charts import token_groups, token_rates, tokens
from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report import language, server_side
from inferbench_tasks.analysis.report.compose import html
from inferbench_tasks.analysis.report.knee import Knee, curves
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import sections
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen import early_stopping
from tests.unit.analysis.builders import named, records, view


def streaming(
    run_id: str, rate_rps: float, good: float | None, *, ttft: float = 100.0, user: float = 20.0, system: float = 50.0,
    verdict: str = "valid", least: float | None = 0.95, **more: Any,
) -> RunView:  # fmt: skip
    """A run with these figures of its streams."""
    made = view(records(), run_id, verdict, job={"load__arrivals__rate_rps": rate_rps})
    made.job["slo"] = None if least is None else {"min_good_ratio": least}
    made.summary["tokens"] = {
        "ttft_ms": {"p50": ttft, "p99": 2 * ttft},
        "ttft_from_send_ms": {"p50": ttft},
        "each": {"ttft_ms": 300.0},
        "kept_ratio": {"ttft_ms": good},
        "good_ratio": good,
        "good_decision": None if good is None or least is None else {"met": good >= least},
        "user_tokens_per_s": {"p50": user},
        "output_tokens_per_s": system,
        "over_time": {"t_s": [0, 1], "seconds": [1.0, 0.5], "tokens": [40.0, 30.0]},
        "gaps_by_length": {"edges_ms": [0.0, 0.01, 0.0126], "counts": [1, 3]},
        "server": ["stand-in", "llm_stand_in: no model, paced text"],
        "reasons": {"tpot_ms": "streams came at once"},
        **more,
    }
    return made


def test_tokens_over_time_are_rates() -> None:
    """Thirty tokens in the last half of a second are sixty a second."""
    (trace,) = tokens.over_time([streaming("a", 1, 1.0)])["data"]  # type: ignore[index]
    assert (trace["x"], trace["y"]) == ([0.5, 1.5], [40.0, 60.0])


def test_gaps_are_shares_on_a_logarithm() -> None:
    """What came in one read is drawn one bin below the first edge; the last edge ends the last bin."""
    (trace,) = tokens.gaps([streaming("a", 1, 1.0)])["data"]  # type: ignore[index]
    assert trace["y"] == [0.25, 0.75, 0.75]
    assert trace["x"] == pytest.approx([0.01 / 1.26, 0.01, 0.0126])


@pytest.mark.parametrize(
    ("good", "knee"),
    [
        ([1.0, 0.97, 0.95, 0.6], 4.0),
        ([1.0, 0.94, 0.99, 0.6], 1.0),
        ([0.9, 0.5, 0.4, 0.3], None),
        ([1.0, 1.0, 1.0, 1.0], None),
        ([1.0, None, 0.9, 0.8], None),
    ],
)
def test_the_knee_is_the_last_rate_before_the_first_that_broke(
    good: list[float | None], knee: float | None
) -> None:
    """None where the lowest breaks, where none does, and where one between can't tell."""
    views = [
        streaming(f"r{n}", rate, ratio)
        for n, (rate, ratio) in enumerate(zip([1, 2, 4, 8], good, strict=True))
    ]
    (curve,) = curves(views[::-1])
    found = Knee.of(curve)
    assert (found.rate_rps if found else None) == knee
    drawn = token_rates.ttft_against_rate(named(*views))
    assert drawn is not None
    labels = [shape["label"]["text"] for shape in drawn["layout"]["shapes"]]
    assert labels == ([f"knee {knee:.3g}/s"] if knee else []) + ["SLO TTFT 300 ms"]
    assert [(trace["name"], trace["x"]) for trace in drawn["data"]] == [
        (name, [1, 2, 4, 8]) for name in ("p50", "p99")
    ]


def test_curves_are_named_without_the_rate() -> None:
    """By what tells one configuration from the other; a curve has all rates, and is not called by the first."""
    views = [streaming(f"r{n}", rate, 1.0) for n, rate in enumerate([1, 2, 1, 2])]
    for slots, one in zip([1, 1, 2, 2], views, strict=True):
        one.job["serve"] = {**one.job["serve"], "slots": slots}
    name_by_difference(views)
    assert [curve.label for curve in curves(views)] == ["slots 1", "slots 2"]
    name_by_difference(views[:2])
    assert [curve.label for curve in curves(views[:2])] == [""]


def test_what_is_not_known_of_a_rate_is_drawn_as_that() -> None:
    """Too few answers for a median: their mean; nothing: a line that says so; not valid: open marks."""
    views = [streaming(f"r{n}", rate, 1.0) for n, rate in enumerate([1, 2, 4])]
    nothing = {"p50": None, "p99": None, "mean": None}
    views[0].summary["tokens"]["ttft_ms"] = {**nothing, "mean": 90.0}
    views[1] = streaming("r1", 2, 1.0, verdict="disturbed: by others")
    views[2].summary["tokens"]["ttft_ms"] = nothing
    drawn = token_rates.ttft_against_rate(views)
    assert drawn is not None and drawn["layout"]["showlegend"]
    traces = {trace["name"].rpartition(", ")[2]: trace for trace in drawn["data"]}
    assert {name: (trace["x"], trace["y"]) for name, trace in traces.items()} == {
        "p50": ([2], [100.0]), "p99": ([2], [200.0]), "where a median takes more answers": ([1], [90.0]),
    }  # fmt: skip
    assert traces["p50"]["marker"]["symbol"] == ["circle-open"]
    assert traces["p50"]["customdata"] == [" (disturbed)"]
    assert drawn["layout"]["shapes"][0]["label"]["text"] == "4/s: withheld"
    views[1].summary["tokens"]["by_turn"] = [{"turn": 1, "ttft_p50_ms": 100.0}]
    drawn = token_rates.ttft_against_rate(views)
    assert drawn is not None and drawn["layout"]["xaxis"]["title"]["text"] == "conversations meant per second"
    for one in views:
        one.summary["tokens"]["ttft_ms"] = nothing
    assert token_rates.ttft_against_rate(views) is None


def test_a_backlog_that_grew_broke_the_objective() -> None:
    """Its times are withheld, and with them what is good; no objective has no knee."""
    views = [streaming("a", 1, 1.0), streaming("b", 2, None)]
    views[1].result.certificate["figures"] = {"growing_backlog": "it grew"}  # type: ignore[union-attr]
    assert Knee.of(curves(views)[0]) == Knee(1.0)
    free = [streaming("a", 1, 1.0, least=None), streaming("b", 2, 0.1, least=None)]
    assert Knee.of(curves(free)[0]) is None


@pytest.mark.parametrize(
    ("verdict", "broken", "kept"),
    [("valid", 2.0, 4.0), ("disturbed: by others", None, 4.0), ("invalid: late", None, None)],
)
def test_what_others_broke_is_no_knee(verdict: str, broken: float | None, kept: float | None) -> None:
    """A disturbed run shows by its lower bound that it kept the objective, and not that it broke it; an invalid one
    shows neither."""
    third = streaming("c", 4, 0.5, verdict=verdict)
    first, second, last = streaming("a", 1, 1.0), streaming("b", 2, 1.0), streaming("d", 8, 0.1)
    assert Knee.of(curves([first, second, third])[0]) == (Knee(broken) if broken else None)
    third = streaming("c", 4, 1.0, verdict=verdict)
    assert Knee.of(curves([first, second, third, last])[0]) == (Knee(kept) if kept else None)


def test_a_rate_of_which_the_verdict_can_not_tell_is_not_kept() -> None:
    """99 of 100 good, 0.99 wanted: the run's own verdict is undecided, for a true 0.98 is seen like that in 40% of all
    runs (0.98^100 + 100 x 0.02 x 0.98^99). 1,000 of 1,000 decide. What no decision was stored of is undecided, too."""
    decisions = [early_stopping.decide(np.arange(count) < bad, 0.99) for bad, count in ((1, 100), (0, 1000))]
    assert [decision.met for decision in decisions] == [None, True]
    first, undecided, unknown = (
        streaming(f"r{rate}", rate, 0.99, least=0.99, good_decision=decision)
        for rate, decision in ((1, {"met": True}), (2, {"met": decisions[0].met}), (4, None))
    )
    broken = streaming("r8", 8, 0.5, least=0.99)
    assert Knee.of(curves([first, broken])[0]) == Knee(1.0)
    assert Knee.of(curves([first, undecided, broken])[0]) is None
    assert Knee.of(curves([first, unknown, broken])[0]) is None


def test_the_front_is_a_step_function() -> None:
    """Up to 30 tokens/s each there are 90, from there to 50 there are 60; what others beat is not on it."""
    assert tokens.step_function([(50, 60), (30, 90), (20, 80), (50, 40), (40, 60)]) == [(30, 90), (50, 60)]
    views = [
        streaming("a", 1, 1.0, user=50, system=60),
        streaming("b", 2, 1.0, user=30, system=90),
        streaming("c", 3, 1.0, user=99, system=99, verdict="invalid: late"),
    ]
    drawn = tokens.pareto(views)
    assert drawn is not None
    front, *points = drawn["data"]
    assert (front["x"], front["y"], front["line"]["shape"]) == ([0, 30, 50, 50], [90, 90, 60, 0], "vh")
    assert [point["x"] + point["y"] for point in points] == [[50, 60], [30, 90]]
    assert "median" in drawn["layout"]["xaxis"]["title"]["text"]


def test_a_system_s_rate_that_was_not_steady_is_a_diamond() -> None:
    """With its reason in the hover text and an entry in the legend."""
    why = "not steady: the throughput drifts by -22% over the load"
    views = [streaming("a", 1, 1.0, user=50, system=60), streaming("b", 2, 1.0, user=30, system=90)]
    assert views[0].result is not None
    views[0].result.certificate["figures"] = {"steady_state": why, "throughput_change_ratio": -0.22}
    drawn = tokens.pareto(views)
    assert drawn is not None
    _, moved, steady, entry = drawn["data"]
    assert (moved["marker"]["symbol"], steady["marker"]["symbol"]) == ("diamond", "circle")
    assert moved["name"].endswith(" (not steady)") and why in moved["hovertemplate"]
    assert entry["name"].startswith("diamond: not steady")


def test_loads_of_a_fixed_number_in_flight_are_points_of_mlperf_endpoints() -> None:
    """With their regions, and on the axis that its rules give."""
    views = [
        streaming(
            f"c{n}",
            1,
            1.0,
            mlperf_endpoints={
                "concurrency": n,
                "system_tps": 10.0 * n,
                "tps_per_user": 99 / n,
                "ttft_p90_ms": 5.0,
            },
        )
        for n in (16, 26, 27, 117, 118, 1024)
    ]
    drawn = tokens.pareto(views)
    assert drawn is not None and "MLPerf" in drawn["layout"]["xaxis"]["title"]["text"]
    regions = language.table(views)[-1]
    assert [row[1:4] for row in regions["rows"]] == [
        [16, "ultra low", "160"], [26, "low", "260"], [27, "medium", "270"], [117, "medium", "1,170"],
        [118, "high", "1,180"], [1024, "high", "10,240"],
    ]  # fmt: skip


def test_turns_are_drawn_where_there_are_several() -> None:
    """One turn is no curve, and a turn without a median no point."""
    turns = [{"turn": n, "ttft_p50_ms": value} for n, value in ((1, 10.0), (2, None), (3, 30.0))]
    drawn = tokens.by_turn([streaming("a", 1, 1.0, by_turn=turns), streaming("b", 1, 1.0, by_turn=turns[:1])])
    assert drawn is not None
    assert [(trace["x"], trace["y"]) for trace in drawn["data"]] == [([1, 3], [10.0, 30.0])]


def test_good_requests_by_objective() -> None:
    """Each bound that any run has, then all of them; the least share as a line."""
    drawn = tokens.kept_by_objective([streaming("a", 1, 0.9)])
    assert drawn is not None
    (trace,) = drawn["data"]
    assert (trace["x"], trace["y"]) == (["TTFT", "all of them"], [0.9, 0.9])
    assert [shape["label"]["text"] for shape in drawn["layout"]["shapes"]] == ["at least 95%"]
    free = tokens.kept_by_objective([streaming("a", 1, 0.9, least=None)])
    assert free is not None and not free["layout"]["shapes"]
    assert tokens.kept_by_objective([streaming("a", 1, None)]) is None  # an empty frame says nothing


def test_a_reason_of_several_figures_is_told_once() -> None:
    """Where no time is known neither TTFT nor the good share is, for one reason."""
    short = streaming("a", 1, None, reasons={"ttft_ms": "measure longer", "good_ratio": "measure longer"})
    assert "no ttft_ms and no good_ratio: measure longer." in language.words([short])


@pytest.mark.parametrize(
    ("from_send", "failed", "says"),
    [
        (
            99.0,
            None,
            "the server's: 99 of 100 ms (medians) to the first token followed the send (chunks were read 0.04",
        ),
        (30.0, None, "of a median of 100 ms to the first token 30 ms followed the send: requests waited"),
        (99.0, "client_cpu", "the client had its part: too busy"),
        (None, None, "can't be told"),
    ],
)
def test_whose_the_times_are(from_send: float | None, failed: str | None, says: str) -> None:
    """In words, with what tells it."""
    run = streaming("a", 1, 1.0, ttft_from_send_ms={"p50": from_send})
    check = {"name": failed, "ok": False, "reason": "too busy", "value": 1.0, "limit": 0.0, "unit": "cores"}
    run.result.certificate |= {  # type: ignore[union-attr]
        "checks": [check] if failed else [],
        "figures": {"stamp_delay_p99_ms": 0.04, "client_cpu_ratio": 0.1},
    }
    assert says in language.whose(run)


def test_times_through_an_emulated_network_are_not_the_server_s_alone() -> None:
    """Of 100 ms from the send 70 may be the round trip of the emulated LTE: its name stands beside the server. Where
    nothing is emulated, the server stands alone."""
    run = streaming("a", 1, 1.0)
    said = language.whose(run)
    assert "the times are the server's: 100 of 100 ms" in said and "network" not in said
    assert run.result is not None
    run.result.load.network = "4g_lte"
    assert "the server's and those of the emulated network (4g_lte): 100 of 100 ms" in language.whose(run)


@pytest.mark.parametrize(
    ("queue", "prompt", "between", "says"),
    [
        (70.0, 20.0, 5.0, "most of it is the server's queue."),
        (
            None,
            20.0,
            75.0,
            "and its queue, which it does not tell; most of it is what neither accounts for.",
        ),
        (30.0, 35.0, 30.0, "no part has most of it"),
        (0.0, 35.0, 30.0, "(of 9 of 10 good answers, which tell it)"),
    ],
)
def test_where_the_first_token_s_time_goes(
    queue: float | None, prompt: float, between: float, says: str
) -> None:
    """By the server's word, where it has one; words that are longer than what the client saw are no verdict."""
    parts = {
        "requests": 9, "good": 10, "impossible": 0, "ttft_ms": 100.0, "client_ms": 5.0, "server_queue_ms": queue,
        "server_prompt_ms": prompt, "between_ms": between,
    }  # fmt: skip
    run = streaming("a", 1, 1.0, ttft_parts=parts, ttft_ms={"mean": 100.0})
    assert says in (server_side.verdict(run) or "")
    run = streaming("a", 1, 1.0, ttft_parts={**parts, "impossible": 2}, ttft_ms={"mean": 100.0})
    assert "of 2 of 9 answers" in (server_side.verdict(run) or "") and "no verdict" in (
        server_side.verdict(run) or ""
    )
    assert server_side.verdict(streaming("a", 1, 1.0)) is None


@pytest.mark.parametrize(
    ("beyond", "says"), [(0.5, "0.5 ms more."), (-0.04, "0.04 ms less."), (-6.7e-4, "the same, to 0.001 ms.")]
)
def test_later_tokens_are_the_servers_and_the_clients(beyond: float, says: str) -> None:
    """A server whose clock runs on after the last token has been longer at it than the client saw: said as such."""
    parts = {
        "requests": 9, "good": 10, "impossible": 0, "ttft_ms": 100.0, "client_ms": 5.0, "server_queue_ms": 70.0,
        "server_prompt_ms": 20.0, "between_ms": 5.0,
    }  # fmt: skip
    means = {
        "ttft_ms": 100.0,
        "server_tpot_ms": 73.0,
        "tpot_ms": 73.0 + beyond,
        "tpot_beyond_server_ms": beyond,
    }
    figures: dict[str, Any] = {name: {"mean": mean} for name, mean in means.items()}
    run = streaming("a", 1, 1.0, ttft_parts=parts, **figures)
    assert f"took the server 73 ms (mean); the client saw {says}" in (server_side.verdict(run) or "")


def test_a_server_whose_answers_carry_no_times_has_its_counters_beside_the_client() -> None:
    """Means over the window beside the client's, and no difference: they are of other requests. llama.cpp's counters,
    which have no time to the first token, are no sentence.
    """
    counters = {"ttft_ms": 400.0, "tpot_ms": None, "itl_ms": 21.0, "queue_ms": 0.5}
    means: dict[str, Any] = {
        "ttft_from_send_ms": {"mean": 430.0},
        "tpot_ms": {"mean": 25.0},
        "ttft_ms": {"mean": 440.0},
    }
    said = server_side.verdict(streaming("a", 1, 1.0, server_counters=counters, **means)) or ""
    assert (
        "400 ms to the first token, where the client's mean is 430 ms; in its queue a request was 0.5 ms"
        in said
    )
    assert "no difference is made" in said and "later token" not in said
    said = (
        server_side.verdict(streaming("a", 1, 1.0, server_counters=counters | {"tpot_ms": 24.0}, **means))
        or ""
    )
    assert "24 ms for each later token, where the client's mean is 25 ms" in said
    others = {"ttft_ms": None, "tpot_ms": None, "prompt_token_ms": 3.0}
    assert server_side.verdict(streaming("a", 1, 1.0, server_counters=others, **means)) is None


def test_the_page_defines_each_figure_and_says_what_is_no_model() -> None:
    """By hints on the names; a page of other runs has no word of tokens."""
    page = html(named(streaming("a", 1, 1.0), streaming("b", 2, 0.9)), {})
    assert "Streamed tokens" in page and "says that it is no model" in page
    assert (
        'title="c_1 - a: arrival of the first chunk with a token - intended moment, of good answers"' in page
    )
    assert "no tpot_ms: streams came at once" in page
    whole = html(named(view(records(), "a"), view(records(), "b")), {})
    assert [figure.name for figure in FIGURES.values() if figure.streamed and figure.title in whole] == []
    assert "Streamed tokens" not in [section.title for section in sections(named(view(records(), "a")))]


def test_figures_of_a_disturbed_run_are_bounds_here_too() -> None:
    """As in the table of runs: what looks like a value would be one. What all runs say is said once, a line each."""
    runs = named(streaming("a", 1, 1.0), streaming("b", 2, 0.9, verdict="disturbed: something else ran"))
    (table,) = language.table(runs)
    assert table["head"] == ["figure", runs[0].label, f"{runs[1].label} (disturbed)"]
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["Median time to the first token, ms"] == ["100", "≤ 100"]
    assert rows["Output tokens per second, tokens/s"] == ["50", "≥ 50"]
    lines = language.words(runs).splitlines()
    assert len(lines) == 4 and lines[2].startswith(f"{runs[0].label}, {runs[1].label}: the server says")


def test_groups_of_prompts_are_drawn_where_there_are_two_medians() -> None:
    """In the order of their lengths, not of the alphabet or of the runs; a group without a median is no bar."""
    rows = [
        {"from_tokens": 2**n, "to_tokens": 2 ** (n + 1) - 1, "requests": 20 + n, "ttft_p50_ms": value}
        for n, value in ((6, 30.0), (10, 90.0), (7, None))
    ]
    one = streaming("a", 1, 1.0, by_prompt_tokens=rows[:1])
    assert token_groups.by_prompt_tokens([one]) is None
    drawn = token_groups.by_prompt_tokens([streaming("b", 1, 1.0, by_prompt_tokens=rows[::-1]), one])
    assert drawn is not None
    bars = [(trace["x"], trace["y"], trace["customdata"]) for trace in drawn["data"]]
    assert bars == [
        (["1,024 to 2,047", "64 to 127"], [90.0, 30.0], [30, 26]),
        (["64 to 127"], [30.0], [26]),
    ]
    assert drawn["layout"]["xaxis"]["categoryarray"] == ["64 to 127", "1,024 to 2,047"]
    cached = [{"cached": name, "requests": 11, "ttft_p50_ms": 5.0} for name in ("half or more", "none")]
    hits = token_groups.by_cached([streaming("a", 1, 1.0, by_cached=cached)])
    assert hits is not None and hits["layout"]["xaxis"]["categoryarray"] == ["none", "half or more"]
